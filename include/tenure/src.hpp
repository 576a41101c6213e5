// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

// The functions that the headers only declare where TENURE_SEPARATE is defined. One source of such a program
// includes this, or links tenure::compiled, which has it; all others then compile in a tenth of the time.

#ifndef TENURE_SEPARATE
#include <tenure/src.hpp is for programs that define TENURE_SEPARATE in all their sources>
#endif

#include <tenure/detail/buffers/named_buffers.ipp>
#include <tenure/impl/background.ipp>
#include <tenure/impl/batch_owner.ipp>
#include <tenure/impl/batch_scope.ipp>
#include <tenure/impl/bind_batch.ipp>
#include <tenure/impl/buffer.ipp>
#include <tenure/impl/change_batch.ipp>
#include <tenure/impl/checkpoints.ipp>
#include <tenure/impl/core.ipp>
#include <tenure/impl/current.ipp>
#include <tenure/impl/derived.ipp>
#include <tenure/impl/inspect.ipp>
#include <tenure/impl/keep_copy.ipp>
#include <tenure/impl/lane.ipp>
#include <tenure/impl/objects.ipp>
#include <tenure/impl/paging.ipp>
#include <tenure/impl/pin.ipp>
#include <tenure/impl/registry.ipp>
#include <tenure/impl/sharing.ipp>
#include <tenure/impl/timing.ipp>
#include <tenure/impl/unique_owner.ipp>
#include <tenure/impl/warm.ipp>
#include <tenure/impl/whole_batch.ipp>

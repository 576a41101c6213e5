// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

/// All that the headers of objects, handles and batches call and do not have.

#include <tenure/detail/batch/checked_access.ipp>
#include <tenure/detail/batch/failure.ipp>
#include <tenure/detail/batch/lane.ipp>
#include <tenure/detail/buffers/derivation.hpp>
#include <tenure/detail/life/public_calls.ipp>
#include <tenure/detail/objects/bump.ipp>
#include <tenure/detail/objects/make_object.ipp>
#include <tenure/impl/handle.ipp>

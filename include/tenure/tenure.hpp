// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

// Includes everything that needs only the C++20 library and Linux.

#include <tenure/background.hpp>
#include <tenure/batch.hpp>
#include <tenure/batch_owner.hpp>
#include <tenure/batch_scope.hpp>
#include <tenure/bind_batch.hpp>
#include <tenure/change_batch.hpp>
#include <tenure/checkpoints.hpp>
#include <tenure/compact_handle.hpp>
#include <tenure/derived.hpp>
#include <tenure/error.hpp>
#include <tenure/handle.hpp>
#include <tenure/handle_cast.hpp>
#include <tenure/handle_from_this.hpp>
#include <tenure/inspect.hpp>
#include <tenure/keep_copy.hpp>
#include <tenure/lane.hpp>
#include <tenure/only_memory.hpp>
#include <tenure/paging.hpp>
#include <tenure/pin.hpp>
#include <tenure/print.hpp>
#include <tenure/registry.hpp>
#include <tenure/sharing.hpp>
#include <tenure/snapshot.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/timing.hpp>
#include <tenure/unique_owner.hpp>
#include <tenure/warm.hpp>
#include <tenure/whole_batch.hpp>

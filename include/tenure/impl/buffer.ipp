// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/buffer.hpp>
#include <tenure/detail/buffers/buffer_calls.ipp>
#include <tenure/detail/life/one_copy.hpp>
#include <tenure/impl/core.ipp>
#include <tenure/impl/lane.ipp>

namespace tenure::detail {

extern "C" {
/// What a process has of this once: life/one_copy.hpp.
void const* const tenure_copies_of_buffers[] = {&running_derivations, &store_notify::under_way, nullptr};
}

}  // namespace tenure::detail

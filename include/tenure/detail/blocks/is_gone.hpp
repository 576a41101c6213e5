// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/store/concept.hpp>

namespace tenure::detail {

/// Returns whether the store says that it does not know the block. A failed deallocate() does not say what it
/// freed; an empty read tells, and moves no bytes.
template <class Store>
bool is_gone(Store& s, block b) noexcept {
    result<void> const r = s.read(b, 0, {});
    return !r && r.error() == errc::no_such_block;
}

}  // namespace tenure::detail

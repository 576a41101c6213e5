// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/store/concept.hpp>

namespace tenure::detail {

/// Whether a store says that it knows the block no more. A deallocate() that failed does not say what it freed; a
/// read of nothing tells, and moves no bytes.
template <class Store>
bool is_gone(Store& s, block b) noexcept {
    result<void> const r = s.read(b, 0, {});
    return !r && r.error() == errc::no_such_block;
}

}  // namespace tenure::detail

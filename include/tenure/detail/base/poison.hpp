// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <tenure/detail/base/config.hpp>

#if TENURE_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace tenure::detail {

/// Tells AddressSanitizer that nobody may use this memory.
inline void poison([[maybe_unused]] void const* p, [[maybe_unused]] std::size_t n) noexcept {
#if TENURE_ASAN
    __asan_poison_memory_region(p, n);
#endif
}

/// Tells it that somebody may again.
inline void unpoison([[maybe_unused]] void const* p, [[maybe_unused]] std::size_t n) noexcept {
#if TENURE_ASAN
    __asan_unpoison_memory_region(p, n);
#endif
}

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/valgrind.hpp>

#if TENURE_ASAN
#include <sanitizer/lsan_interface.h>
#endif

namespace tenure::detail {

/// The functions below tell checking tools what slab memory means. AddressSanitizer hears of every object, by
/// poison(). valgrind hears of a run or a hole when it is taken, and of an object when it is freed. Its client
/// requests are instructions in a normal run too, and must stay off the path of a make.

/// Adds slab memory to what the leak check searches: an object in a slab may hold the only pointer to memory on
/// the heap.
inline void slab_mapped([[maybe_unused]] void const* p, [[maybe_unused]] std::size_t n) noexcept {
#if TENURE_ASAN
    __lsan_register_root_region(p, n);
#endif
}

inline void slab_unmapped([[maybe_unused]] void const* p, [[maybe_unused]] std::size_t n) noexcept {
#if TENURE_ASAN
    __lsan_unregister_root_region(p, n);
#endif
}

/// Exempts memory on the heap from the leak check. Only a table in memory from the system points to it, and the
/// leak check does not search there.
inline void never_given_back([[maybe_unused]] void const* p) noexcept {
#if TENURE_ASAN
    __lsan_ignore_object(p);
#endif
}

/// Whether valgrind runs. A program may set it before it has a registry, as bench/instructions.cpp does.
inline bool under_valgrind = valgrind::runs();

/// Returns whether such a tool checks memory. If so, telling it more may cost time.
inline bool memory_is_checked() noexcept { return TENURE_ASAN || under_valgrind; }

/// Silences valgrind while it lives, because the system is then given memory that valgrind regards as freed.
class quiet_tools {
public:
    quiet_tools() noexcept {
        if (under_valgrind) valgrind::show_errors(false);
    }
    ~quiet_tools() {
        if (under_valgrind) valgrind::show_errors(true);
    }
    quiet_tools(quiet_tools const&)            = delete;
    quiet_tools& operator=(quiet_tools const&) = delete;
};

inline void run_taken(void const* p, std::size_t n) noexcept {
    if (under_valgrind) [[unlikely]]
        valgrind::tell_undefined(p, n);
}

inline void run_given_back(void const* p, std::size_t n) noexcept {
    poison(p, n);
    if (under_valgrind) [[unlikely]]
        valgrind::tell_unusable(p, n);
}

}  // namespace tenure::detail

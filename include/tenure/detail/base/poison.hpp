// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/valgrind.hpp>

#if TENURE_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#endif

namespace tenure::detail {

/// Tells the checking tools what slab memory means: AddressSanitizer object by object; valgrind a run or hole at a
/// time when it is taken, and object by object when it is freed (its client requests are instructions in a normal
/// run too, and these stay off the path of a make).

/// What lies in a slab may be the only one to know of memory on the heap: the leak check must look there too.
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

/// On the heap, and known to a table of the system's memory, where the leak check does not look.
inline void never_given_back([[maybe_unused]] void const* p) noexcept {
#if TENURE_ASAN
    __lsan_ignore_object(p);
#endif
}

inline void poison([[maybe_unused]] void const* p, [[maybe_unused]] std::size_t n) noexcept {
#if TENURE_ASAN
    __asan_poison_memory_region(p, n);
#endif
}

inline void unpoison([[maybe_unused]] void const* p, [[maybe_unused]] std::size_t n) noexcept {
#if TENURE_ASAN
    __asan_unpoison_memory_region(p, n);
#endif
}

/// A program may say otherwise, before it has a registry: bench/instructions.cpp does.
inline bool under_valgrind = valgrind::runs();

/// Such a tool looks on: then what it wants to know may cost time.
inline bool memory_is_checked() noexcept { return TENURE_ASAN || under_valgrind; }

/// While it lives, valgrind does not mind that memory is given to the system which is nobody's.
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

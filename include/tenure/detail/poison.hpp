// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <tenure/detail/config.hpp>

#if TENURE_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#endif
#if __has_include(<valgrind/memcheck.h>) && !defined(NVALGRIND)
#include <valgrind/memcheck.h>
#define TENURE_VALGRIND 1
#else
#define TENURE_VALGRIND 0
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

#if TENURE_VALGRIND
inline bool const under_valgrind = [] { return RUNNING_ON_VALGRIND != 0; }();

TENURE_COLD inline void tell_valgrind(void const* p, std::size_t n, bool usable) noexcept {
    if (usable) {
        VALGRIND_MAKE_MEM_UNDEFINED(p, n);
    } else {
        VALGRIND_MAKE_MEM_NOACCESS(p, n);
    }
}
#endif

/// Such a tool looks on: then what it wants to know may cost time.
inline bool memory_is_checked() noexcept {
#if TENURE_VALGRIND
    return TENURE_ASAN || under_valgrind;
#else
    return TENURE_ASAN;
#endif
}

/// While it lives, valgrind does not mind that memory is given to the system which is nobody's.
class quiet_tools {
public:
#if TENURE_VALGRIND
    quiet_tools() noexcept {
        if (under_valgrind) VALGRIND_DISABLE_ERROR_REPORTING;
    }
    ~quiet_tools() {
        if (under_valgrind) VALGRIND_ENABLE_ERROR_REPORTING;
    }
#else
    quiet_tools() noexcept {}
    ~quiet_tools() {}
#endif
    quiet_tools(quiet_tools const&)            = delete;
    quiet_tools& operator=(quiet_tools const&) = delete;
};

inline void run_taken([[maybe_unused]] void const* p, [[maybe_unused]] std::size_t n) noexcept {
#if TENURE_VALGRIND
    if (under_valgrind) [[unlikely]]
        tell_valgrind(p, n, true);
#endif
}

inline void run_given_back(void const* p, std::size_t n) noexcept {
    poison(p, n);
#if TENURE_VALGRIND
    if (under_valgrind) [[unlikely]]
        tell_valgrind(p, n, false);
#endif
}

}  // namespace tenure::detail

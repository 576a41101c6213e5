// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <cstddef>

// What differs between compilers and builds, in one place.

#if defined(__SANITIZE_ADDRESS__)
#define TENURE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TENURE_ASAN 1
#endif
#endif
#ifndef TENURE_ASAN
#define TENURE_ASAN 0
#endif
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

#if defined(TENURE_EXPLORE)  // tests/explore instruments as ThreadSanitizer does, but without it
#define TENURE_TSAN 0
#elif defined(__SANITIZE_THREAD__)
#define TENURE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TENURE_TSAN 1
#endif
#endif
#ifndef TENURE_TSAN
#define TENURE_TSAN 0
#endif

/// Marks a function that reads memory which may be reused meanwhile, and finds out afterwards, as with a sequence
/// lock. Sanitizers would report the read.
#if defined(__clang__)
#if __has_feature(thread_sanitizer) && !defined(TENURE_EXPLORE)
#define TENURE_OPTIMISTIC [[gnu::noinline]] __attribute__((disable_sanitizer_instrumentation))
#endif
#elif defined(__SANITIZE_THREAD__)
#define TENURE_OPTIMISTIC [[gnu::noinline, gnu::no_sanitize_thread]]
#endif
#ifndef TENURE_OPTIMISTIC
#if TENURE_ASAN
#define TENURE_OPTIMISTIC [[gnu::noinline, gnu::no_sanitize_address]]
#else
#define TENURE_OPTIMISTIC
#endif
#endif

/// In checked builds every make asks whether it is on the right thread, not only one that needs more memory, and
/// an end out of order reports itself on stderr at once. The default is 1 where there is neither NDEBUG nor
/// optimization, as in CMake's Debug. The user may define it as 0 or 1.
///
/// No layout depends on it, and only functions that are always inlined test it. So sources built with it and
/// without it can be linked together, and each behaves as it was built.
#ifndef TENURE_CHECKED
#if defined(NDEBUG) || defined(__OPTIMIZE__)
#define TENURE_CHECKED 0
#else
#define TENURE_CHECKED 1
#endif
#endif

/// Marks what a process has once, whatever `-fvisibility` says and however many programs and libraries in it were
/// compiled with these headers: state that outlives a call, functions with static variables of that kind, and
/// types that other libraries catch, compare or name in the type of such state. See detail/base/module.hpp.
#define TENURE_SHARED [[gnu::visibility("default")]]

/// Marks what each program and each library has of its own.
#define TENURE_OWN [[gnu::visibility("hidden")]]

/// Functions that need not be inlined are declared with TENURE_DECL in headers and defined in impl/*.ipp. By
/// default these come with the headers, and each translation unit compiles what it uses. In a program that defines
/// TENURE_SEPARATE for all its sources, one source includes <tenure/src.hpp>, which has them all.
#ifdef TENURE_SEPARATE
#define TENURE_DECL
#else
#define TENURE_DECL inline
#endif

/// TENURE_SLOW marks a function that is called now and then by code that must stay small. TENURE_COLD marks one
/// that is hardly ever called.
#define TENURE_SLOW [[gnu::noinline]]
#define TENURE_COLD [[gnu::noinline, gnu::cold]]

// All sources of a program must agree on what tenure is: its version, whether TENURE_SEPARATE is defined, the
// sanitizers, and whether there are exceptions. Otherwise one source would use memory as another does not lay it
// out, or a program would have two registries. So each source refers to a symbol that is named after its
// configuration. The symbols of all configurations lie in one COMDAT group, of which a linker keeps the first that
// it meets: if sources disagree, a symbol is missing, and the linker says which. This costs a program 37 bytes.
//
// Not with link-time optimization, which makes one source of all.

#ifdef TENURE_SEPARATE
#define TENURE_CONFIGURATION_MODE "_compiled"
#else
#define TENURE_CONFIGURATION_MODE "_header_only"
#endif
#if TENURE_ASAN
#define TENURE_CONFIGURATION_SANITIZER "_asan"
#elif TENURE_TSAN
#define TENURE_CONFIGURATION_SANITIZER "_tsan"
#else
#define TENURE_CONFIGURATION_SANITIZER
#endif
#ifdef __cpp_exceptions
#define TENURE_CONFIGURATION_EXCEPTIONS
#else
#define TENURE_CONFIGURATION_EXCEPTIONS "_no_exceptions"
#endif
#define TENURE_CONFIGURATION_VERSION_(major, minor, patch) "_" #major "_" #minor "_" #patch
#define TENURE_CONFIGURATION_VERSION(...) TENURE_CONFIGURATION_VERSION_(__VA_ARGS__)

/// Such as tenure_0_1_0_compiled_here_but_not_in_all_sources, as the linker's message has it.
#define TENURE_CONFIGURATION                                                                                \
    "tenure" TENURE_CONFIGURATION_VERSION(TENURE_VERSION_MAJOR, TENURE_VERSION_MINOR, TENURE_VERSION_PATCH) \
        TENURE_CONFIGURATION_MODE TENURE_CONFIGURATION_SANITIZER TENURE_CONFIGURATION_EXCEPTIONS            \
        "_here_but_not_in_all_sources"

// The reference is a note because linkers keep notes, whatever else they find unused ("R").
asm(".pushsection .rodata.tenure, \"aG\", %progbits, tenure_configuration, comdat\n"
    ".globl " TENURE_CONFIGURATION
    "\n"
    ".hidden " TENURE_CONFIGURATION "\n" TENURE_CONFIGURATION
    ":\n"
    ".byte 0\n"
    ".popsection\n"
    ".pushsection .note.tenure.configuration, \"aGR\", %note, " TENURE_CONFIGURATION
    "_note, comdat\n"
    ".balign 4\n"
    ".long 7, 8, 2\n"
    ".asciz \"tenure\"\n"
    ".balign 4\n"
    ".quad " TENURE_CONFIGURATION
    " - .\n"
    ".popsection\n");

#undef TENURE_CONFIGURATION
#undef TENURE_CONFIGURATION_VERSION
#undef TENURE_CONFIGURATION_VERSION_
#undef TENURE_CONFIGURATION_EXCEPTIONS
#undef TENURE_CONFIGURATION_SANITIZER
#undef TENURE_CONFIGURATION_MODE

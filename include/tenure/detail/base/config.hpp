// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

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

#if defined(TENURE_EXPLORE)  // tests/explore: instrumented as for ThreadSanitizer, which is not there
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

/// For reads of memory that may just have become something else, which the reader finds out afterwards, as with a
/// sequence lock: sanitizers take them for faults.
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

/// In checked builds every make, not just one that wants more memory, asks whether it is on the right thread, and
/// an end that comes out of order says so on stderr when it comes. On where there is neither NDEBUG nor
/// optimization, as in CMake's Debug; to be set to 0 or 1 else.
///
/// No layout depends on it, and what is asked is asked in functions that are inlined whatever the compiler thinks:
/// so sources built with and without it go together, and each has what it was built with.
#ifndef TENURE_CHECKED
#if defined(NDEBUG) || defined(__OPTIMIZE__)
#define TENURE_CHECKED 0
#else
#define TENURE_CHECKED 1
#endif
#endif

/// What a process has once, however many programs and libraries in it were compiled with these headers, whatever
/// `-fvisibility` says: state that outlives a call, functions with such static variables, and types that other
/// libraries catch, compare or name in the type of such state. See detail/base/module.hpp.
#define TENURE_SHARED [[gnu::visibility("default")]]

/// What each program and library has of its own.
#define TENURE_OWN [[gnu::visibility("hidden")]]

/// TENURE_SLOW is called now and then, by code that must stay small; TENURE_COLD hardly ever.
#define TENURE_SLOW [[gnu::noinline]]
#define TENURE_COLD [[gnu::noinline, gnu::cold]]

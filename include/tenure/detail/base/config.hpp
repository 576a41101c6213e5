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

/// TENURE_SLOW marks a function that is called now and then by code that must stay small. TENURE_COLD marks one
/// that is hardly ever called.
#define TENURE_SLOW [[gnu::noinline]]
#define TENURE_COLD [[gnu::noinline, gnu::cold]]

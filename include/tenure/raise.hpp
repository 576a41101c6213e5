// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <utility>

/// The only code that depends on whether exceptions exist. Without them (-fno-exceptions) nothing is thrown or
/// caught: what would have been thrown ends the program with its message. Calls that return a result never throw
/// what they can return.
namespace tenure {

/// Throws `e`. Without exceptions, writes e.what() to standard error on a line of its own, and aborts.
/// Thread-safe.
template <class Exception>
[[noreturn, gnu::cold, gnu::noinline]] void raise(Exception const& e) {
#ifdef __cpp_exceptions
    throw e;
#else
    std::fprintf(stderr, "tenure: %s\n", e.what());
    std::abort();
#endif
}

namespace detail {

/// Returns what `run` returns or, if it throws an `Exception` e, otherwise(e).
template <class Exception, class Run, class Otherwise>
auto run_or(Run&& run, [[maybe_unused]] Otherwise&& otherwise) -> decltype(run()) {
#ifdef __cpp_exceptions
    try {
        return run();
    } catch (Exception const& e) {
        return otherwise(e);
    }
#else
    return run();
#endif
}

/// Calls `run`. Returns false if it threw std::bad_alloc.
template <class Run>
bool memory_lasts(Run&& run) {
    auto const all = [&] {
        run();
        return true;
    };
    return run_or<std::bad_alloc>(all, [](auto const&) { return false; });
}

/// Calls `run`. Returns what it threw, or null.
template <class Run>
std::exception_ptr thrown_by(Run&& run) {
#ifdef __cpp_exceptions
    try {
        run();
    } catch (...) {
        return std::current_exception();
    }
#else
    run();
#endif
    return nullptr;
}

}  // namespace detail
}  // namespace tenure

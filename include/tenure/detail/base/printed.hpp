// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <string>

namespace tenure::detail {

/// Returns what std::printf would print, for the messages of the core: a call of it is a tenth of the code that
/// concatenating strings is, and every source compiles it. Numbers of 64 bits are `%zu`.
[[gnu::format(printf, 1, 2), gnu::cold]] inline std::string printed(char const* format, ...) {
    std::va_list args;
    va_start(args, format);
    std::va_list again;
    va_copy(again, args);
    auto const  n = static_cast<std::size_t>(std::vsnprintf(nullptr, 0, format, args));
    std::string out(n, '\0');
    std::vsnprintf(out.data(), n + 1, format, again);
    va_end(again);
    va_end(args);
    return out;
}

}  // namespace tenure::detail

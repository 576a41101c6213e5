// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

// std::format() of what print.hpp prints, with the options of a string: "{:>12}". Does nothing where the library
// has no <format>. Not in tenure.hpp, because <format> takes long to compile.

#include <version>

#include <tenure/print.hpp>

#ifdef __cpp_lib_format
#include <format>
#include <string>
#include <string_view>

template <tenure::detail::has_text T>
struct std::formatter<T, char> : std::formatter<std::string_view, char> {
    template <class Context>
    auto format(T const& t, Context& context) const {
        std::string const text = to_text(t);
        return std::formatter<std::string_view, char>::format(text, context);
    }
};
#endif

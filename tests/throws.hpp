// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <initializer_list>
#include <ostream>
#include <source_location>
#include <string_view>
#include <system_error>

#include <doctest/doctest.h>

#include <tenure/detail/base/function_ref.hpp>
#include <tenure/error.hpp>

/// `f` throws tenure::error with that code, an errc or what a store said, and its what() has all of `parts`: which
/// batch, and what to do about it.
inline void check_throws(std::error_code code, std::initializer_list<std::string_view> parts,
                         tenure::detail::function_ref<void()> f,
                         std::source_location                 where = std::source_location::current()) {
    INFO("called at line " << where.line());
    try {
        f();
    } catch (tenure::error const& e) {
        std::string_view const what = e.what();
        CAPTURE(what);
        CHECK(e.code() == code);
        for (std::string_view const part : parts) {
            CAPTURE(part);
            CHECK(what.find(part) != what.npos);
        }
        return;
    }
    FAIL_CHECK("nothing was thrown");
}

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include <tenure/store/any_store.hpp>

/// What the tests that must not compile make their stores of: declarations are enough.
namespace half_store {

using tenure::block;
using tenure::result;
using tenure::store_traits;

struct minimal {
    static constexpr store_traits traits{};

    result<block>       allocate(std::size_t, std::size_t);
    result<void>        deallocate(std::span<block const>) noexcept;
    result<void>        read(block, std::size_t, std::span<std::byte>);
    result<void>        write(block, std::size_t, std::span<std::byte const>);
    tenure::store_usage usage() const noexcept;
};

}  // namespace half_store

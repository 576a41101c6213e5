// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <source_location>
#include <span>

namespace fuzz {

/// What must hold whatever the input was. Not assert(): it is checked in every build.
inline void require(bool good, char const* what, std::source_location where = std::source_location::current()) {
    if (good) return;
    std::fprintf(stderr, "%s:%u: %s\n", where.file_name(), static_cast<unsigned>(where.line()), what);
    std::abort();
}

/// The bytes that libFuzzer made, taken from the front. What is not there is zeros.
class input {
public:
    explicit input(std::span<std::byte const> all) noexcept : rest_(all) {}

    bool                       empty() const noexcept { return rest_.empty(); }
    std::span<std::byte const> rest() const noexcept { return rest_; }

    template <class T>
    T take() noexcept {
        T                 t{};
        std::size_t const n = std::min(sizeof t, rest_.size());
        std::memcpy(&t, rest_.data(), n);
        rest_ = rest_.subspan(n);
        return t;
    }
    /// At most so many.
    std::span<std::byte const> take(std::size_t n) noexcept {
        auto const first = rest_.first(std::min(n, rest_.size()));
        rest_            = rest_.subspan(first.size());
        return first;
    }

private:
    std::span<std::byte const> rest_;
};

}  // namespace fuzz

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);

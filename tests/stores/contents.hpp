// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tenure/store/concept.hpp>

#include "../random/dice.hpp"

using byte_vector = std::vector<std::byte>;

/// `n` bytes that tell one seed from another.
inline byte_vector pattern(std::uint64_t seed, std::size_t n) {
    dice        d(seed);
    byte_vector out(n);
    for (std::byte& b : out) b = static_cast<std::byte>(d());
    return out;
}

template <class Store>
tenure::block made(Store& s, byte_vector const& contents) {
    tenure::block const b = s.allocate(contents.size(), 1).value();
    s.write(b, 0, contents).value();
    return b;
}

template <class Store>
byte_vector contents(Store& s, tenure::block b) {
    byte_vector out(b.bytes);
    s.read(b, 0, out).value();
    return out;
}

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <tenure/tenure.hpp>

#include "../accounting.hpp"
#include "lab_store.hpp"

// What tests of buffers have in common: four kinds of stores, and buffers of numbers in them.

using far     = lab_store<>;                                                          ///< as a peer is: bytes only
using near    = lab_store<{.addressable = true}>;                                     ///< as mapped memory is
using device  = lab_store<{.copyable = true}>;                                        ///< as a GPU is
using library = lab_store<{.addressable = true, .durable = true, .copyable = true}>;  ///< as files are

inline auto make_far(std::string name = "far", std::size_t capacity = 0) {
    return make_lab<>(std::move(name), capacity);
}
inline auto make_near(std::string name = "near") { return make_lab<{.addressable = true}>(std::move(name)); }
inline auto make_device(std::string name = "device") { return make_lab<{.copyable = true}>(std::move(name)); }
inline auto make_library(std::string name = "library") {
    return make_lab<{.addressable = true, .durable = true, .copyable = true}>(std::move(name));
}

inline std::error_code const io_error = std::make_error_code(std::errc::io_error);

template <class T = int>
std::vector<T> numbers(std::size_t n, int from = 1) {
    std::vector<T> v(n);
    std::iota(v.begin(), v.end(), static_cast<T>(from));
    return v;
}

template <class T>
std::vector<T> contents(tenure::buffer<T> const& b) {
    std::vector<T> v(b.size());
    b.read(0, v);
    return v;
}

inline tenure::buffer<int> make_filled(tenure::batch_scope& in, std::size_t n, tenure::any_store const& store,
                                       int from = 1) {
    auto const b = in.make_buffer<int>(n, store);
    b.write(0, numbers(n, from));
    return b;
}

/// A registry of its own with a check of all its books at the end.
struct lab {
    tenure::registry r;
    accounting       books{r};
};

/// Makes, fills, copies, resizes and moves elements in a store, whatever it can do by itself. Returns what was
/// wrong, or nothing.
inline std::string elements_error(tenure::batch_scope& b, tenure::any_store const& store) {
    auto all = numbers(300'000);
    auto x   = b.make_buffer(all, store);
    x.fill(1000, 270'000, -1);
    std::fill_n(all.begin() + 1000, 270'000, -1);
    if (contents(x) != all) return "fill";

    x.slice(0, 299'000).copy_to(x.slice(500, 299'000));
    std::copy_backward(all.begin(), all.begin() + 299'000, all.begin() + 299'500);
    if (contents(x) != all) return "a copy within a buffer, upwards";
    x.copy_to(x, {.from = 700, .to = 100, .count = 299'300});
    std::copy(all.begin() + 700, all.end(), all.begin() + 100);
    if (contents(x) != all) return "a copy within a buffer, downwards";
    x.copy_to(x, {.from = 0, .to = 200'000, .count = 1000});
    std::copy_n(all.begin(), 1000, all.begin() + 200'000);
    if (contents(x) != all) return "a copy of one part to another";

    std::vector<int> rows(12);
    x.read_rows({.offset = 50, .count = 3, .stride = 1000}, rows);
    for (std::size_t i = 0; i < 12; ++i)
        if (rows[i] != all[50 + i / 3 * 1000 + i % 3]) return "rows that are read";
    x.write_rows({.offset = 60, .count = 4, .stride = 5000}, rows);
    for (std::size_t i = 0; i < 12; ++i) all[60 + i / 4 * 5000 + i % 4] = rows[i];
    if (contents(x) != all) return "rows that are written";

    x = x.resize(350'000).resize(70'000);
    all.resize(70'000);
    if (contents(x) != all) return "resize";
    b.free(x);
    return {};
}

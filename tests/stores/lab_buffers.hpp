// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

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

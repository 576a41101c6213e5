// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include <tenure/registry.hpp>

/// A clock for timeouts that the test sets.
inline std::atomic<std::uint64_t> virtual_now{1'000'000'000};

inline std::uint64_t read_clock() noexcept { return virtual_now; }
inline void pass(std::chrono::nanoseconds time) { virtual_now += static_cast<std::uint64_t>(time.count()); }

inline tenure::registry_options on_virtual_time() {
    tenure::registry_options o;
    o.clock = &read_clock;
    return o;
}

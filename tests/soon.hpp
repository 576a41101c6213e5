// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <thread>

/// Looks each millisecond whether it is so, until it is. Returns false if it is not by then.
template <class F>
bool soon(F it_is, std::chrono::seconds by = std::chrono::seconds(10)) {
    for (auto const until = std::chrono::steady_clock::now() + by; !it_is();) {
        if (std::chrono::steady_clock::now() > until) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

/// Counts its ends.
struct counted {
    explicit counted(int& n) : ends(&n) {}
    ~counted() { ++*ends; }
    counted(counted const&)            = delete;
    counted& operator=(counted const&) = delete;
    int*     ends;
};

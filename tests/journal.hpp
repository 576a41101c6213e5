// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <vector>

/// What the objects of one test write down of themselves.
struct journal {
    journal() { ended.reserve(1024); }  // an end should not be seen to allocate because of us

    std::vector<int> ended;  ///< their numbers, in the order of their destructors
    int              alive = 0;
};

class traced {
public:
    traced(journal& j, int number) : journal_(j), number_(number) { ++journal_.alive; }
    ~traced() {
        --journal_.alive;
        journal_.ended.push_back(number_);
    }
    traced(traced const&)            = delete;  // so it is non-movable, too
    traced& operator=(traced const&) = delete;

    int number() const { return number_; }

private:
    journal& journal_;
    int      number_;
};

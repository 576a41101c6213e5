// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#include "threads.hpp"

namespace bench {

namespace {

/// Spins, for the wait is short; where there are fewer cores than threads, lets others in.
template <class F>
void wait_until(F done) {
    for (int spins = 0; !done(); ++spins) {
        if (spins > 10'000) std::this_thread::yield();
    }
}

}  // namespace

team::team(unsigned size) {
    for (unsigned i = 1; i < size; ++i) others_.emplace_back(&team::member, this, i);
}

team::~team() {
    over_ = true;
    ++round_;
    for (auto& each : others_) each.join();
}

void team::run(job const& work) {
    work_    = &work;
    running_ = static_cast<unsigned>(others_.size());
    ++round_;
    work(0);
    wait_until([&] { return running_ == 0; });
}

void team::member(unsigned index) {
    for (unsigned seen = 0;;) {
        wait_until([&] { return round_ != seen; });
        ++seen;
        if (over_) return;
        (*work_)(index);
        --running_;
    }
}

}  // namespace bench

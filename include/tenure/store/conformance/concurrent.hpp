// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include <tenure/store/conformance/subject.hpp>

namespace tenure::detail::conformance {

struct filled_block {
    block         b;
    std::uint64_t seed;
};

/// Where threads leave blocks for others to free.
class exchange {
public:
    void put(filled_block b) {
        std::scoped_lock const guard(lock_);
        blocks_.push_back(b);
    }
    std::optional<filled_block> take() {
        std::scoped_lock const guard(lock_);
        if (blocks_.empty()) return {};
        filled_block const b = blocks_.back();
        blocks_.pop_back();
        return b;
    }

private:
    std::mutex                lock_;
    std::vector<filled_block> blocks_;
};

/// One thread's random program. It fills each block with its seed's pattern, and checks it before it goes.
class program {
public:
    program(subject const& s, std::uint64_t number, std::size_t budget, exchange& others)
        : s_(s), dice_(number), next_seed_(number << 48), budget_(budget), others_(others) {
        s_.figure("thread", number);
    }

    void run() {
        for (unsigned i = 0; i < s_.options.steps; ++i) {
            s_.figure("step", i);
            step();
        }
        free_last(live_.size());
    }

    std::span<std::uint64_t const> ids() const noexcept { return ids_; }

private:
    void step() {
        std::size_t const what = below(dice_, 12);
        if (live_.empty() && what < 10) return make();
        switch (what) {
        default: make(); break;
        case 5: look(any()); break;
        case 6: rewrite(any()); break;
        case 7:
            std::swap(any(), live_.back());
            free_last(1);
            break;
        case 8: free_last(below(dice_, live_.size() + 1)); break;
        case 9:
            held_ -= live_.back().b.bytes;
            others_.put(live_.back());
            live_.pop_back();
            break;
        case 10:
            if (auto const b = others_.take()) {
                look(*b);
                s_.free(b->b);
            }
            break;
        case 11: {
            store_usage const u = s_.store.usage();
            s_.expect(u.capacity == 0 || u.bytes <= u.capacity, "usage().bytes is above usage().capacity");
            break;
        }
        }
    }

    void make() {
        static constexpr std::size_t most[] = {1, 64, 64, 64, 512, 512, 5000, 70'000};
        std::size_t const            n      = below(dice_, most[below(dice_, std::size(most))]);
        if (held_ + n > budget_) return free_last(live_.size() / 2 + 1);
        live_.push_back({s_.allocate(n, std::size_t{1} << below(dice_, 7)), next_seed_++});
        held_ += n;
        ids_.push_back(live_.back().b.id);
        s_.fill(live_.back().b, live_.back().seed);
    }

    filled_block& any() { return live_[below(dice_, live_.size())]; }
    void          look(filled_block const& x) { s_.expect_filled(x.b, x.seed); }

    void rewrite(filled_block& x) {
        x.seed = next_seed_++;
        s_.fill(x.b, x.seed);
    }

    void free_last(std::size_t n) {
        std::vector<block> many;
        for (n = std::min(n, live_.size()); n != 0; --n) {
            look(live_.back());
            many.push_back(live_.back().b);
            held_ -= live_.back().b.bytes;
            live_.pop_back();
        }
        s_.free(many);
    }

    subject                    s_;  // figures of its own
    dice                       dice_;
    std::uint64_t              next_seed_;
    std::size_t                budget_;
    std::size_t                held_ = 0;
    exchange&                  others_;
    std::vector<filled_block>  live_;
    std::vector<std::uint64_t> ids_;
};

/// Calls f(i) on `n` threads at once. Rethrows the exception of the lowest i that threw.
template <class F>
void on_threads(unsigned n, F f) {
    std::vector<std::future<void>> running;  // waits in the destructor, too
    running.reserve(n);
    for (unsigned i = 0; i < n; ++i) running.push_back(std::async(std::launch::async, std::ref(f), i));
    for (auto& r : running) r.get();
}

/// Runs `n` programs, each on a thread; a single one on this thread.
inline void run_programs(subject& s, unsigned n) {
    exchange             left;
    std::vector<program> programs;
    programs.reserve(n);
    // Blocks in the exchange are in no thread's budget, so all budgets together are a part of the room.
    std::size_t const budget = std::min(s.room() / 8, std::size_t{16} << 20) / n;
    for (unsigned i = 0; i < n; ++i) programs.emplace_back(s, i + 1, budget, left);
    if (n == 1) programs.front().run();
    else on_threads(n, [&](unsigned i) { programs[i].run(); });

    while (auto const x = left.take()) {
        s.expect_filled(x->b, x->seed);
        s.free(x->b);
    }
    s.expect_usage(0, 0);
    std::unordered_set<std::uint64_t> seen;
    std::size_t                       made = 0;
    for (program const& p : programs) {
        made += p.ids().size();
        seen.insert(p.ids().begin(), p.ids().end());
    }
    s.expect_equal(seen.size(), made, "the number of different ids given out");
    s.note = std::to_string(made) + " blocks";
}

inline void one_thread(subject& s) { run_programs(s, 1); }

inline void many_threads(subject& s) {
    if (s.options.threads < 2) throw skipped_check{"conformance_options::threads is below 2"};
    run_programs(s, s.options.threads);
    s.note += " on " + std::to_string(s.options.threads) + " threads";
}

/// Checks that reads of one block may overlap.
inline void many_readers(subject& s) {
    if (s.options.threads < 2) throw skipped_check{"conformance_options::threads is below 2"};
    bytes const full = pattern(1, 50'000);
    block const b    = s.allocate_filled(full.size(), 1);
    on_threads(s.options.threads, [&, common = s](unsigned number) {
        subject mine = common;
        dice    d(number);
        for (int i = 0; i < 50; ++i) {
            std::size_t const at = below(d, full.size());
            bytes             out(below(d, full.size() - at));
            mine.succeeds(mine.store.read(b, at, out), "read while others read");
            mine.expect_contents(out, std::span(full).subspan(at, out.size()));
        }
    });
    s.free(b);
}

}  // namespace tenure::detail::conformance

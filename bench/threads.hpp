// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include "peer.hpp"

namespace bench {

/// Threads that start together: the caller's and `size - 1` more, which spin between rounds, for a wake-up by the
/// kernel takes longer than many a round.
class team {
public:
    using job = std::function<void(unsigned member)>;

    explicit team(unsigned size);
    ~team();
    team(team const&)            = delete;
    team& operator=(team const&) = delete;

    /// Runs work(0) on this thread and work(1) ... on the others; returns when all are done.
    void run(job const& work);

private:
    void member(unsigned index);

    job const*               work_ = nullptr;
    std::atomic<unsigned>    round_{0};
    std::atomic<unsigned>    running_{0};
    std::atomic<bool>        over_{false};
    std::vector<std::thread> others_;
};

/// Each thread opens batches of its own, one after the other, and ends them: 2,000,000 objects a thread and round.
template <peer P>
void batch_each(benchmark::State& state) {
    auto const objects = static_cast<std::size_t>(state.range(0));
    auto const threads = static_cast<unsigned>(state.range(1));
    auto const batches = 2'000'000 / objects;

    struct alignas(128) own {  // two peers' words in one cache line would be this program's cost, not theirs
        std::optional<P> peer;
    };
    std::vector<own> members(threads);
    auto const       make_and_end = [&](unsigned member) {
        P& peer = *members[member].peer;
        for (std::size_t i = 0; i != batches; ++i) {
            typename P::batch batch{peer};
            make_objects(batch, objects);
            benchmark::ClobberMemory();
        }
    };
    team workers{threads};
    workers.run([&](unsigned member) {
        members[member].peer.emplace(capacity{.objects = objects, .bytes = objects * sizeof(object)});
        make_and_end(member);
    });
    for (auto _ : state) {
        auto const start = clock::now();
        workers.run(make_and_end);
        state.SetIterationTime(seconds{clock::now() - start}.count());
    }
    workers.run([&](unsigned member) { members[member].peer.reset(); });
    state.counters["objects"] = static_cast<double>(threads * batches * objects);
}

/// Its batches can be ended on another thread than the one that made them.
template <class P>
concept ends_anywhere = peer<P> && requires(typename P::batch& b) { P::end(b.detach()); };

/// Made here, ended there, or both here. The sum of what the two threads take, without the wait for each other.
template <ends_anywhere P>
void end_elsewhere(benchmark::State& state) {
    auto const count   = static_cast<std::size_t>(state.range(0));
    auto const threads = static_cast<unsigned>(state.range(1));
    team       workers{threads};
    P          peer{{.objects = count, .bytes = count * sizeof(object)}};
    for (auto _ : state) {
        auto const start    = clock::now();
        auto const detached = [&] {
            typename P::batch batch{peer};
            make_objects(batch, count);
            return batch.detach();
        }();
        seconds const making = clock::now() - start;
        seconds       ending{};
        workers.run([&](unsigned member) {
            if (member + 1 != threads) return;
            auto const begin = clock::now();
            P::end(detached);
            ending = clock::now() - begin;
        });
        state.SetIterationTime((making + ending).count());
    }
    state.counters["objects"] = static_cast<double>(count);
}

}  // namespace bench

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Requests that each make 58 KB, of which a cache keeps 96 bytes: the time of a request, and the memory that is
// held for what was kept, beside requests that keep nothing. `shared_ptr`: all is made with new, and the cache has
// some.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>
#include <malloc.h>
#include <tenure/tenure.hpp>

#include "support.hpp"

namespace {

struct answer {
    explicit answer(std::uint64_t n) noexcept { words[0] = n; }
    std::array<std::uint64_t, 12> words;
};
constexpr std::size_t objects_each = 58 * 1024 / sizeof(answer);

/// What the cache has. From `most` answers on one that chance names goes for each that comes.
template <class Handle>
class cached {
public:
    explicit cached(std::size_t most) : most_(most) { all_.reserve(most + 1); }

    template <class Free>
    void add(Handle h, Free free) {
        all_.push_back(std::move(h));
        if (all_.size() <= most_) return;
        std::swap(all_[roll_() % all_.size()], all_.back());
        free(all_.back());
        all_.pop_back();
    }
    std::size_t bytes() const { return all_.size() * sizeof(answer); }
    std::size_t any() { return roll_(); }

private:
    std::vector<Handle> all_;
    std::size_t         most_;
    std::mt19937        roll_{7};
};

struct tenure_requests {
    using handle = tenure::handle<answer>;

    void request(cached<handle>* keep, std::size_t which) {
        tenure::batch_scope here(registry);
        handle              kept;
        for (std::size_t i = 0; i < objects_each; ++i) {
            auto const made = here.make<answer>(i);
            bench::use(made);
            if (i == which) kept = made;
        }
        if (!keep) return;
        if (copies) kept = tenure::keep_to(cache, kept);
        else registry.transfer_ownership(kept, cache.id());
        keep->add(kept, [&](handle h) { cache.free(h); });
    }
    std::size_t held() const { return registry.usage().held; }

    tenure::registry    registry;
    tenure::batch_scope cache{registry};
    bool                copies = false;
};
struct copying_requests : tenure_requests {
    copying_requests() { copies = true; }
};

struct shared_requests {
    using handle = std::shared_ptr<answer>;

    void request(cached<handle>* keep, std::size_t which) {
        std::vector<handle> all(objects_each);
        for (std::size_t i = 0; i < objects_each; ++i) {
            all[i] = std::make_shared<answer>(i);
            bench::use(all[i].get());
        }
        if (keep) keep->add(all[which], [](handle& h) { h.reset(); });
    }
    std::size_t held() const { return ::mallinfo2().uordblks - before; }

    std::size_t before = ::mallinfo2().uordblks;
};

/// `every`: one request in so many keeps something. `which`: of its objects the first, one in the middle, the last,
/// or one that chance names. `most`: what the cache has at once.
template <class Requests>
void cache(benchmark::State& state) {
    auto const every = static_cast<std::size_t>(state.range(0)), which = static_cast<std::size_t>(state.range(1)),
               most = static_cast<std::size_t>(state.range(2)), n = static_cast<std::size_t>(state.range(3));
    Requests                          all;
    cached<typename Requests::handle> keep(most);
    auto const                        run = [&](std::size_t times, bool keeps) {
        auto const start = bench::clock::now();
        for (std::size_t i = 0; i < times; ++i)
            all.request(keeps && i % every == 0 ? &keep : nullptr,
                        which < 3 ? which * (objects_each - 1) / 2 : keep.any() % objects_each);
        return bench::seconds(bench::clock::now() - start).count() / static_cast<double>(times);
    };
    for (auto _ : state) {
        run(10'000, false);
        double const none          = run(20'000, false);
        double const some          = run(n, true);
        state.counters["times"]    = some / none;
        state.counters["held"]     = static_cast<double>(all.held()) / static_cast<double>(keep.bytes());
        state.counters["each_ns"]  = some * 1e9;
        state.counters["plain_ns"] = none * 1e9;
    }
}

void kinds(benchmark::internal::Benchmark* b) {
    b->ArgNames({"every", "which", "most", "requests"})->Iterations(1)->Unit(benchmark::kMillisecond);
    for (int const which : {0, 1, 2, 3}) b->Args({1, which, 20'000, 20'000});
    b->Args({10, 0, 10'000, 1'000'000})->Args({10, 3, 10'000, 1'000'000})->Args({1'000, 0, 10'000, 1'000'000});
}
BENCHMARK(cache<tenure_requests>)->Name("cache/tenure")->Apply(kinds);
BENCHMARK(cache<copying_requests>)->Name("cache/tenure_copy")->Apply(kinds);
BENCHMARK(cache<shared_requests>)->Name("cache/shared_ptr")->Args({1, 0, 20'000, 20'000})->Apply([](auto* b) {
    b->ArgNames({"every", "which", "most", "requests"})->Iterations(1)->Unit(benchmark::kMillisecond);
});

}  // namespace

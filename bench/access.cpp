// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// What the check costs: the same objects, in the same memory, reached through handles and through raw pointers.

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <tenure/tenure.hpp>

#include "support.hpp"

namespace {

struct node {
    tenure::handle<node>         next;
    node*                        raw_next = nullptr;
    tenure::compact_handle<node> compact_next;
    std::uint64_t                value = 1;
    std::uint64_t                rest[3]{};
};
static_assert(sizeof(node) == 64);

/// Nodes in one ring in random order, which is also the order of the arrays.
struct ring {
    std::vector<tenure::handle<node>>         handles;
    std::vector<node*>                        pointers;
    std::vector<tenure::compact_handle<node>> compact;
    tenure::batch_id                          batch;

    explicit ring(std::size_t bytes) {
        tenure::batch_scope scope;
        for (std::size_t i = 0; i != bytes / sizeof(node); ++i) handles.push_back(scope.make<node>());
        std::ranges::shuffle(handles, std::mt19937_64{3});
        for (std::size_t i = 0; i != handles.size(); ++i) {
            auto const& next         = handles[(i + 1) % handles.size()];
            handles[i]->next         = next;
            handles[i]->raw_next     = next.get();
            handles[i]->compact_next = next;
            compact.push_back(handles[i]);
            pointers.push_back(handles[i].get());
        }
        batch = scope.detach();
    }
    ~ring() { tenure::registry::global().end_batch(batch); }
    ring(ring const&)            = delete;
    ring& operator=(ring const&) = delete;
};

/// The same for std::weak_ptr, whose lock() is the standard's checked access.
struct weak_ring {
    std::vector<std::shared_ptr<node>> owners;
    std::vector<std::weak_ptr<node>>   pointers;

    explicit weak_ring(std::size_t bytes) {
        for (std::size_t i = 0; i != bytes / sizeof(node); ++i) owners.push_back(std::make_shared<node>());
        std::ranges::shuffle(owners, std::mt19937_64{3});
        pointers.assign(owners.begin(), owners.end());
    }
};

/// Made once for each working set: the largest takes longer to make than to measure.
template <class Ring>
Ring const& ring_of(std::size_t bytes) {
    tenure::registry::global();  // opened before the map, so closed after it
    static std::map<std::size_t, Ring> made;
    return made.try_emplace(bytes, bytes).first->second;
}

constexpr std::size_t steps_at_once = 1 << 14;

/// Each step needs the one before: how long until a value is there.
template <class Links, class Next>
void chain(benchmark::State& state, Links const& links, Next node::* next) {
    auto const steps = std::min(links.size(), steps_at_once);
    auto       at    = links[0];
    for (auto _ : state) {
        for (std::size_t i = 0; i != steps; ++i) at = (*at).*next;
        bench::use(at);
    }
    state.counters["objects"] = static_cast<double>(steps);
}

/// No step needs another: how many values there are in a time.
template <class Links, class F>
void independent(benchmark::State& state, Links const& links, F read) {
    auto const  steps = std::min(links.size(), steps_at_once);
    std::size_t from  = 0;
    for (auto _ : state) {
        std::uint64_t sum = 0;
        for (std::size_t i = from; i != from + steps; ++i) sum += read(links[i]);
        bench::use(sum);
        from = from + 2 * steps <= links.size() ? from + steps : 0;
    }
    state.counters["objects"] = static_cast<double>(steps);
}

/// Half of the first and the second cache, for the rest of what is in use must fit too; a quarter of the third,
/// which others use as well; eight times that cache, and what a desk's machine still has, for memory.
std::int64_t working_set(int level) {
    std::int64_t sizes[] = {32 << 10, 1 << 20, 32 << 20};
    for (auto const& cache : benchmark::CPUInfo::Get().caches) {
        if (cache.type != "Instruction" && cache.level >= 1 && cache.level <= 3)
            sizes[cache.level - 1] = cache.size;
    }
    if (level == 4) return std::clamp<std::int64_t>(8 * sizes[2], 256 << 20, 512 << 20);
    return level == 3 ? sizes[2] / 4 : sizes[level - 1] / 2;
}

bool const registered = [] {
    for (int level = 1; level <= 4; ++level) {
        auto const bytes = static_cast<std::size_t>(working_set(level));
        auto const add   = [&](char const* name, auto measure) {
            auto const in = level == 4 ? std::string{"memory"} : 'L' + std::to_string(level);
            benchmark::RegisterBenchmark(("access/" + in + '/' + name).c_str(), [=](benchmark::State& state) {
                measure(state, bytes);
                state.counters["bytes"] = static_cast<double>(bytes);
            });
        };
        using benchmark::State;
        add("chain_handle", [](State& s, std::size_t n) { chain(s, ring_of<ring>(n).handles, &node::next); });
        add("chain_compact",
            [](State& s, std::size_t n) { chain(s, ring_of<ring>(n).compact, &node::compact_next); });
        add("chain_raw", [](State& s, std::size_t n) { chain(s, ring_of<ring>(n).pointers, &node::raw_next); });
        auto const value = [](auto const& link) { return link->value; };
        add("independent_handle",
            [=](State& s, std::size_t n) { independent(s, ring_of<ring>(n).handles, value); });
        add("independent_compact",
            [=](State& s, std::size_t n) { independent(s, ring_of<ring>(n).compact, value); });
        add("independent_raw", [=](State& s, std::size_t n) { independent(s, ring_of<ring>(n).pointers, value); });
        add("independent_weak", [](State& s, std::size_t n) {
            independent(s, ring_of<weak_ring>(n).pointers, [](auto const& link) { return link.lock()->value; });
        });
    }
    return true;
}();

}  // namespace

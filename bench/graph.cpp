// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A graph of a million nodes with ten edges each, at random: breadth-first through all of it, over edges that are
// raw pointers, handles or compact handles. And the same memory in all three: only what an edge is differs.

#include <cstddef>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

#include <benchmark/benchmark.h>
#include <tenure/tenure.hpp>

#include "support.hpp"

namespace {

constexpr std::size_t node_count = 1'000'000, degree = 10;

template <template <class> class Link>
struct node {
    Link<node>    edges[degree];
    std::uint64_t visited = 0;
    std::uint64_t value   = 1;
};

template <class T>
using raw = T*;

template <template <class> class Link>
struct graph {
    std::vector<Link<node<Link>>> nodes;
    tenure::batch_id              batch;
    std::uint64_t                 round = 0;

    graph() {
        tenure::batch_scope scope;
        nodes.reserve(node_count);
        for (std::size_t i = 0; i != node_count; ++i) {
            auto const made = scope.make<node<Link>>();
            if constexpr (std::is_pointer_v<Link<node<Link>>>) nodes.push_back(made.get());
            else nodes.push_back(made);
        }
        std::mt19937_64 random{3};
        for (auto const& n : nodes)
            for (auto& e : n->edges) e = nodes[random() % node_count];
        batch = scope.detach();
    }
    ~graph() { tenure::registry::global().end_batch(batch); }
    graph(graph const&)            = delete;
    graph& operator=(graph const&) = delete;
};

template <template <class> class Link>
graph<Link>& the_graph() {
    tenure::registry::global();  // opened before the graph, so closed after it
    static graph<Link> made;
    return made;
}

/// With `ahead`, the nodes that are expanded soon are brought in before, and then those that they lead to.
template <class Link>
void bring_in(Link const& link) {
    if constexpr (std::is_pointer_v<Link>) __builtin_prefetch(&link->visited);
    else __builtin_prefetch(&link.unchecked()->visited);
}
template <class Link>
auto& at_once(Link const& link) {
    if constexpr (std::is_pointer_v<Link>) return *link;
    else return *link.unchecked();
}

/// Each edge leads to a node that is read; each node is expanded once.
template <template <class> class Link, bool ahead = false>
void traverse(benchmark::State& state) {
    graph<Link>&                  g = the_graph<Link>();
    std::vector<Link<node<Link>>> queue;
    queue.reserve(node_count);
    for (auto _ : state) {
        std::uint64_t const round = ++g.round;
        std::uint64_t       sum   = 0;
        queue.clear();
        queue.push_back(g.nodes[0]);
        (*g.nodes[0]).visited = round;
        for (std::size_t at = 0; at != queue.size(); ++at) {
            if constexpr (ahead) {
                if (at + 8 < queue.size()) bring_in(queue[at + 8]);
                if (at + 8 < queue.size()) __builtin_prefetch(&at_once(queue[at + 8]).edges[0]);
                if (at + 3 < queue.size())
                    for (auto const& e : at_once(queue[at + 3]).edges) bring_in(e);
            }
            auto& n = *queue[at];
            sum += n.value;
            for (auto const& e : n.edges) {
                auto& to = *e;
                if (to.visited == round) continue;
                to.visited = round;
                queue.push_back(e);
            }
        }
        bench::use(sum);
    }
    state.counters["objects"] = static_cast<double>(queue.size());
    state.counters["bytes"]   = static_cast<double>(node_count * sizeof(node<Link>));
}

BENCHMARK(traverse<raw>)->Name("graph/raw")->Unit(benchmark::kMillisecond);
BENCHMARK(traverse<tenure::handle>)->Name("graph/handle")->Unit(benchmark::kMillisecond);
BENCHMARK(traverse<tenure::compact_handle>)->Name("graph/compact")->Unit(benchmark::kMillisecond);
BENCHMARK(traverse<raw, true>)->Name("graph/raw_ahead")->Unit(benchmark::kMillisecond);
BENCHMARK(traverse<tenure::handle, true>)->Name("graph/handle_ahead")->Unit(benchmark::kMillisecond);
BENCHMARK(traverse<tenure::compact_handle, true>)->Name("graph/compact_ahead")->Unit(benchmark::kMillisecond);

}  // namespace

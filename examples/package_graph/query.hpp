// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <vector>

#include "graph.hpp"
#include "path.hpp"
#include "sample.hpp"
#include "scoreboard.hpp"

namespace package_graph {

using clock   = std::chrono::steady_clock;
using seconds = std::chrono::duration<double>;

struct query_options : sampling {
    unsigned hops = 3;
};

/// What the batches of some requests did.
struct tally {
    std::size_t paths = 0;
    std::size_t made  = 0;
    std::size_t freed = 0;
    seconds     ending{};  ///< time spent in ends

    template <class Batch>
    void end(Batch& b) {
        auto const start  = clock::now();
        auto const report = b.end();
        ending += clock::now() - start;
        made += report.made;
        freed += report.freed;
    }
};

/// Finds the packages most related to one, by a sampled expansion: from it some of its neighbours, from each of
/// those some of theirs, one path object for each. Written once; `Memory` says where objects live (see memory.hpp):
/// in tenure, or in what a program would do without it.
template <class Memory>
class query {
public:
    using batch  = typename Memory::batch;
    using below  = typename Memory::below;
    using answer = std::vector<typename Memory::template ref<related>>;

    query(graph const& g, query_options const& how) : graph_{g}, how_{how}, scores_{g} {}

    /// The packages most related to `start`, best first, kept to `caller`. Whatever else was made is gone.
    answer operator()(batch& caller, node_id start) {
        scores_.clear();
        start_ = start;
        batch      request{below(caller), {.name = "request"}};
        auto const origin = request.template make<path>(nullptr, start, 1.0F);
        answer     best   = expand(request, frontier{{std::to_address(origin)}, request.resource()}, 1);
        request.keep(best);
        totals_.end(request);
        return best;
    }

    tally& totals() noexcept { return totals_; }

private:
    using frontier = std::pmr::vector<path const*>;

    /// A batch a hop, each inside the one before it. The last one ranks; what it found is kept outward, hop by hop.
    answer expand(batch& outer, frontier const& from, unsigned hop) {
        if (hop > how_.hops) return rank(outer);
        batch  inner{below(outer), {.name = "hop"}};
        answer best = expand(inner, visit(inner, from, hop), hop + 1);
        inner.keep(best);
        totals_.end(inner);
        return best;
    }

    /// Prolongs each path by a step. Returns the new ones, but for those of the last hop, where nobody goes on.
    /// Flat: with calls in the loop, 27 million paths took half as long again.
    [[gnu::flatten]] frontier visit(batch& b, frontier const& from, unsigned hop) {
        bool const last = hop == how_.hops;
        frontier   next{b.resource()};
        auto const paths = paths_after(from);
        totals_.paths += paths;
        if (!last) next.reserve(paths);
        for (path const* const p : from) {
            auto const  neighbours = graph_.neighbours(p->node);
            float const weight     = p->weight * stands_for(neighbours.size());
            sample(neighbours, how_, p->node, hop, [&](neighbour to) {
                auto const        made = b.template make<path>(p, to.node, weight * to.weight);
                path const* const q    = std::to_address(made);
                scores_.add(*q);
                if (!last) next.push_back(q);
            });
        }
        return next;
    }

    /// For how many neighbours each of the chosen ones stands: what makes the sum over the paths sampled an
    /// estimate of the sum over all, without bias.
    float stands_for(std::size_t degree) const {
        return static_cast<float>(degree) / static_cast<float>(sample_size(degree, how_));
    }

    std::size_t paths_after(frontier const& from) const {
        std::size_t n = 0;
        for (path const* const p : from) n += sample_size(graph_.neighbours(p->node).size(), how_);
        return n;
    }

    answer rank(batch& b) {
        answer best;
        for (node_id const n : scores_.top(top_size, start_)) best.push_back(b.template make<related>(result(n)));
        return best;
    }

    related result(node_id package) const {
        auto const& [sum, strongest, weight] = scores_[package];
        related r{package, sum, {}, 0};
        for (path const* p = strongest->from; p->from; p = p->from) r.by_way_of[r.steps++] = p->node;
        std::reverse(r.by_way_of.begin(), r.by_way_of.begin() + r.steps);
        return r;
    }

    graph const&  graph_;
    query_options how_;
    scoreboard    scores_;
    node_id       start_ = 0;
    tally         totals_;
};

}  // namespace package_graph

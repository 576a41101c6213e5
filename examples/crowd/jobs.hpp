// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <tenure/budget.hpp>
#include <tenure/tenure.hpp>

#include "model_cache/client.hpp"
#include "model_cache/network.hpp"
#include "package_graph/graph.hpp"
#include "package_graph/memory.hpp"
#include "package_graph/query.hpp"

namespace crowd {

/// What a process of the crowd does: so many pieces of work, one after another.
struct job {
    std::string user;
    bool        trains = false;  ///< models, instead of asking the package graph
    std::size_t pieces = 0;

    std::string kind() const { return trains ? "training" : "graph query"; }
    std::string name() const { return user + ", " + kind(); }
};

struct appetite {
    package_graph::query_options how{};
    package_graph::node_id       start   = 0;
    std::size_t                  query   = 0;  ///< bytes of one query, about
    std::size_t                  clients = 0;  ///< models that are trained together
    model_cache::network         net{};

    /// Bytes of the models, about.
    std::size_t training() const { return clients * 3 * net.parameters() * sizeof(float); }
};

/// Asks the package graph once: a path object for each of millions of paths.
inline void ask(package_graph::graph const& g, appetite const& a, tenure::reservation room) {
    tenure::batch_scope                                caller{{.name = "query", .reservation = std::move(room)}};
    package_graph::query<package_graph::tenure_memory> q(g, a.how);
    static_cast<void>(q(caller, a.start));
}

/// Trains each of some models for a step.
inline void train(appetite const& a, std::uint32_t round, tenure::reservation room) {
    tenure::batch_scope         batch{{.name = "training", .reservation = std::move(room)}};
    std::size_t const           parameters = a.net.parameters();
    auto const                  array      = [&] { return batch.make<float[]>(parameters).span(); };
    model_cache::training const how{.steps = 1};
    model_cache::task const     what(a.net, how.seed);
    auto const                  global = array();
    for (std::uint32_t i = 0; i < a.clients; ++i) {
        auto const          c = batch.make<model_cache::client>(array(), array(), array(), batch.resource());
        tenure::batch_scope scratch{{.name = "scratch"}};
        model_cache::train(*c, global, a.net, what, how, i, round, scratch.resource());
    }
}

/// What a process tells its parent.
struct account {
    std::atomic<std::size_t> done{0};   ///< pieces of work
    std::atomic<std::size_t> again{0};  ///< those begun once more, for they waited in a cycle: errc::would_deadlock
};

/// Does a job. Without a budget it takes what memory it wants.
inline void work(job const& j, package_graph::graph const& g, appetite const& a, tenure::memory_budget* budget,
                 account& so_far) {
    while (so_far.done < j.pieces) {
        tenure::reservation room;
        try {
            if (budget)
                room = budget->reserve({.kind    = j.kind(),
                                        .bytes   = j.trains ? a.training() : a.query,
                                        .timeout = std::chrono::minutes(1)});
            if (j.trains) train(a, static_cast<std::uint32_t>(so_far.done.load()), std::move(room));
            else ask(g, a, std::move(room));
            ++so_far.done;
        } catch (tenure::error const& e) {
            if (e.code() != tenure::errc::would_deadlock) throw;
            ++so_far.again;  // from the beginning, with what was learned
        }
        tenure::registry::global().trim();
    }
}

}  // namespace crowd

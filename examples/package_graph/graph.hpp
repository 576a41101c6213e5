// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

namespace package_graph {

using node_id = std::uint32_t;

struct neighbour {
    node_id node;
    float   weight;  ///< the chance that a walker takes it: the edge's strength over the sum of all of them here
};

/// Undirected and weighted, read-only. Nodes are numbered in the order of their names, packages before names that
/// are only mentioned (virtual packages, mostly): so the same edges make the same graph, whatever order they were
/// read in.
class graph {
public:
    std::size_t size() const noexcept { return names_.size(); }
    std::size_t packages() const noexcept { return packages_; }
    std::size_t edges() const noexcept { return neighbours_.size() / 2; }

    bool               is_package(node_id n) const noexcept { return n < packages_; }
    std::string const& name(node_id n) const { return names_[n]; }

    std::span<neighbour const> neighbours(node_id n) const noexcept {
        return {neighbours_.data() + first_[n], neighbours_.data() + first_[n + 1]};
    }

    std::optional<node_id> find(std::string_view package) const {
        auto const end = names_.begin() + static_cast<std::ptrdiff_t>(packages_);
        auto const at  = std::lower_bound(names_.begin(), end, package);
        if (at == end || *at != package) return std::nullopt;
        return static_cast<node_id>(at - names_.begin());
    }

private:
    friend class graph_builder;

    std::vector<std::string>   names_;
    std::size_t                packages_ = 0;
    std::vector<std::uint32_t> first_;  ///< of a node's neighbours; one more than nodes
    std::vector<neighbour>     neighbours_;
};

class graph_builder {
public:
    void package(std::string_view name) { nodes_[intern(name)].is_package = true; }

    /// Both ways. Of several edges between the same two, the strongest counts; one from a node to itself is no
    /// edge.
    void edge(std::string_view from, std::string_view to, float strength) {
        auto const a = intern(from), b = intern(to);
        if (a != b) edges_.push_back({std::min(a, b), std::max(a, b), strength});
    }

    std::size_t packages() const {
        return static_cast<std::size_t>(std::ranges::count(nodes_, true, &node::is_package));
    }

    graph build() && {
        graph g;
        renumber(g);
        drop_repeated_edges();
        link(g);
        return g;
    }

private:
    struct node {
        std::string name;
        bool        is_package = false;
    };
    struct undirected {
        node_id a, b;
        float   strength;
    };
    struct name_hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view s) const noexcept { return boost::hash<std::string_view>{}(s); }
    };

    node_id intern(std::string_view name) {
        if (auto const at = ids_.find(name); at != ids_.end()) return at->second;
        auto const id = static_cast<node_id>(nodes_.size());
        nodes_.push_back({std::string{name}});
        ids_.emplace(name, id);
        return id;
    }

    void renumber(graph& g) {
        std::vector<node_id> order(nodes_.size());
        std::iota(order.begin(), order.end(), node_id{0});
        std::ranges::sort(order, {}, [&](node_id n) {
            return std::tuple{!nodes_[n].is_package, std::string_view{nodes_[n].name}};
        });

        std::vector<node_id> now(nodes_.size());
        g.packages_ = packages();
        g.names_.reserve(nodes_.size());
        for (node_id const before : order) {
            now[before] = static_cast<node_id>(g.names_.size());
            g.names_.push_back(std::move(nodes_[before].name));
        }
        for (auto& e : edges_) std::tie(e.a, e.b) = std::minmax({now[e.a], now[e.b]});
    }

    void drop_repeated_edges() {
        std::ranges::sort(edges_, {}, [](undirected const& e) { return std::tuple{e.a, e.b, -e.strength}; });
        auto const same = [](undirected const& e) { return std::pair{e.a, e.b}; };
        edges_.erase(std::ranges::unique(edges_, {}, same).begin(), edges_.end());
    }

    void link(graph& g) const {
        std::vector<double> strength(g.size());
        g.first_.resize(g.size() + 1);
        for (auto const& e : edges_) {
            ++g.first_[e.a + 1];
            ++g.first_[e.b + 1];
            strength[e.a] += e.strength;
            strength[e.b] += e.strength;
        }
        std::inclusive_scan(g.first_.begin(), g.first_.end(), g.first_.begin());

        auto at = g.first_;
        g.neighbours_.resize(2 * edges_.size());
        // Edges come in the order of (a, b) with a < b: so each node gets first its lower neighbours, then its
        // higher ones, both in ascending order.
        for (auto const& e : edges_) {
            g.neighbours_[at[e.a]++] = {e.b, static_cast<float>(e.strength / strength[e.a])};
            g.neighbours_[at[e.b]++] = {e.a, static_cast<float>(e.strength / strength[e.b])};
        }
    }

    boost::unordered_flat_map<std::string, node_id, name_hash, std::equal_to<>> ids_;
    std::vector<node>                                                           nodes_;
    std::vector<undirected>                                                     edges_;
};

}  // namespace package_graph

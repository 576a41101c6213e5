// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// The order in which a snapshot shows batches.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/detail/inspect/batch_tree.hpp>

#include "random/dice.hpp"

using tenure::detail::batch_tree;
using tenure::detail::tree_node;

namespace {

struct shown {
    std::uint64_t id;
    std::size_t   depth;
    bool          has_children;

    bool operator==(shown const&) const = default;
};

std::vector<shown> order_of(std::vector<tree_node> const& all) {
    std::vector<shown> out;
    batch_tree         tree(all);
    CHECK(tree.size() == all.size());
    tree.for_each([&](tree_node const& n, std::size_t depth, bool has_children) {
        out.push_back({n.id, depth, has_children});
    });
    return out;
}

/// The same by recursion.
class model {
public:
    explicit model(std::vector<tree_node> const& all) {
        std::map<std::uint64_t, int> known;
        for (tree_node const& n : all) known[n.id] = 1;
        for (tree_node const& n : all) below_[known.contains(n.parent) ? n.parent : 0].push_back(n);
        show(0, 0);
    }
    std::vector<shown> out;

private:
    void show(std::uint64_t parent, std::size_t depth) {
        std::vector<tree_node> here = below_[parent];
        std::sort(here.begin(), here.end(), [](tree_node const& x, tree_node const& y) {
            return std::tie(x.opened, x.id) < std::tie(y.opened, y.id);
        });
        for (tree_node const& n : here) {
            out.push_back({n.id, depth, !below_[n.id].empty()});
            show(n.id, depth + 1);
        }
    }

    std::map<std::uint64_t, std::vector<tree_node>> below_;
};

tree_node node(std::uint64_t id, std::uint64_t parent, std::uint64_t opened) {
    return {id, parent, opened, nullptr};
}

}  // namespace

TEST_CASE("a tree of batches: parents before children, older before newer, whatever order they are found in") {
    dice d(7);
    for (std::size_t const n : {1u, 2u, 10u, 1000u}) {
        for (int round = 0; round < 20; ++round) {
            std::vector<tree_node> all;
            for (std::size_t i = 0; i < n; ++i) {
                std::uint64_t const number = i * 3 + d.below(3);
                std::uint64_t const id =
                    tenure::detail::make_id(1 + d.below(4), static_cast<std::uint32_t>(number));
                std::uint64_t const parent =
                    i && !d.one_in(10) ? all[i - 1 - d.below(std::min<std::size_t>(i, 20))].id : 0;
                all.push_back(node(id, parent, i / 3));
            }
            for (std::size_t i = n; i > 1; --i) std::swap(all[i - 1], all[d.below(i)]);
            REQUIRE(order_of(all) == model(all).out);
        }
    }
}

TEST_CASE("a batch whose parent is not there, or whose parent's record is another's, is at the top") {
    std::uint64_t const gone = tenure::detail::make_id(1, 5), next = tenure::detail::make_id(2, 5),
                        far = tenure::detail::make_id(1, 900), child = tenure::detail::make_id(1, 6),
                        other = tenure::detail::make_id(1, 7);
    CHECK(order_of({node(child, gone, 1), node(next, 0, 2), node(other, far, 3)}) ==
          std::vector<shown>{{child, 0, false}, {next, 0, false}, {other, 0, false}});
}

TEST_CASE("batches that are each other's parents are left out, and nothing hangs") {
    std::uint64_t const a = tenure::detail::make_id(1, 1), b = tenure::detail::make_id(1, 2),
                        c = tenure::detail::make_id(1, 3), root = tenure::detail::make_id(1, 4);
    CHECK(order_of({node(a, b, 1), node(b, a, 2), node(c, b, 3), node(root, 0, 4)}) ==
          std::vector<shown>{{root, 0, false}});
    CHECK(order_of({node(a, a, 1)}).empty());
    CHECK(order_of({}).empty());
}

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <tenure/detail/batch/batch_record.hpp>

namespace tenure::detail {

/// What a snapshot knows of a batch before it reads the rest.
struct tree_node {
    std::uint64_t id, parent;  ///< `parent` 0: none
    std::uint64_t opened;      ///< when
    batch_record* record;
    std::size_t   place = 0;  ///< for the caller
};

/// Batches as a tree: parents before children, older before newer. A batch whose parent is not among them is at the
/// top. Left out are those in a ring of parents, which is seen if they change meanwhile. Cost: that of sorting.
class batch_tree {
public:
    explicit batch_tree(std::vector<tree_node> all) : nodes_(std::move(all)) {
        std::sort(nodes_.begin(), nodes_.end(), [](tree_node const& x, tree_node const& y) {
            return x.opened != y.opened ? x.opened < y.opened : x.id < y.id;
        });
        std::vector<std::uint32_t> const at = places();
        links_.resize(nodes_.size());
        for (std::size_t i = nodes_.size();
             i-- > 0;) {  // the newest first, because each becomes its parent's first
            std::uint64_t const number = record_number(nodes_[i].parent);
            std::uint32_t const up     = number < at.size() ? at[number] : none;
            bool const          below  = up != none && nodes_[up].id == nodes_[i].parent;
            if (below) links_[i].parent = up;
            links_[i].next = std::exchange(below ? links_[up].first : top_, static_cast<std::uint32_t>(i));
        }
    }

    std::size_t size() const noexcept { return nodes_.size(); }

    /// Calls f(node, depth, has_children) in the order of the tree.
    template <class F>
    void for_each(F f) {
        std::size_t depth = 0;
        for (std::uint32_t i = top_; i != none;) {
            f(nodes_[i], depth, links_[i].first != none);
            if (links_[i].first != none) {
                i = links_[i].first;
                ++depth;
                continue;
            }
            while (links_[i].next == none && links_[i].parent != none) {
                i = links_[i].parent;
                --depth;
            }
            i = links_[i].next;
        }
    }

private:
    static constexpr std::uint32_t none = static_cast<std::uint32_t>(-1);

    struct links {
        std::uint32_t parent = none, next = none, first = none;  ///< next sibling, first child
    };

    /// Returns where the batch of each record is, or `none`.
    std::vector<std::uint32_t> places() const {
        std::uint64_t last = 0;
        for (tree_node const& n : nodes_) last = std::max(last, record_number(n.id));
        std::vector<std::uint32_t> out(last + 1, none);
        for (std::size_t i = 0; i < nodes_.size(); ++i)
            out[record_number(nodes_[i].id)] = static_cast<std::uint32_t>(i);
        return out;
    }

    std::vector<tree_node> nodes_;
    std::vector<links>     links_;
    std::uint32_t          top_ = none;
};

}  // namespace tenure::detail

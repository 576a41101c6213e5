// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace tenure::detail {

/// Nodes in the order of their last use, linked through themselves. Not thread-safe. O(1).
///
/// A Node has `Node* newer`, `Node* older` and `bool ordered` for this list alone, zero at first.
template <class Node>
class use_order {
public:
    /// Makes the node the newest, whether or not it was listed.
    void touch(Node& n) noexcept {
        if (newest_ == &n) return;
        remove(n);
        n.ordered                            = true;
        n.older                              = newest_;
        (newest_ ? newest_->newer : oldest_) = &n;
        newest_                              = &n;
    }

    void remove(Node& n) noexcept {
        if (!n.ordered) return;
        (n.newer ? n.newer->older : newest_) = n.older;
        (n.older ? n.older->newer : oldest_) = n.newer;
        n.newer = n.older = nullptr;
        n.ordered         = false;
    }

    Node* oldest() const noexcept { return oldest_; }

private:
    Node* newest_ = nullptr;
    Node* oldest_ = nullptr;
};

}  // namespace tenure::detail

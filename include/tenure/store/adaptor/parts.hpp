// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <span>
#include <system_error>
#include <utility>

#include <tenure/detail/base/sizes.hpp>
#include <tenure/error.hpp>
#include <tenure/store/concept.hpp>

namespace tenure::detail {

/// Returns whether a store refused for want of room, which can come free there or be found elsewhere: store_full,
/// memory_full, limit_exceeded, and what the system says of a full disk or memory.
inline bool is_full(std::error_code e) noexcept {
    return e == std::errc::no_space_on_device || e == std::errc::not_enough_memory || e == errc::limit_exceeded;
}

/// Returns whether the store could have a block that large if it were empty.
template <class Store>
bool could_hold(Store const& s, std::size_t bytes) noexcept {
    std::size_t const capacity = s.usage().capacity;
    return bytes <= (capacity ? capacity : absurd_bytes / 2);
}

/// Calls f() without the lock, and returns its result.
template <class Lock, class F>
auto unlocked(Lock& guard, F f) {
    guard.unlock();
    auto outcome = f();
    guard.lock();
    return outcome;
}

/// Calls f(block) for each under the lock, and gives that up now and then, so that no thread waits for long.
template <class Mutex, class F>
void for_each_locked(Mutex& lock, std::span<block const> many, F f) noexcept {
    while (!many.empty()) {
        std::scoped_lock const       guard(lock);
        std::span<block const> const part = many.first(std::min<std::size_t>(many.size(), 128));
        for (block const b : part) f(b);
        many = many.subspan(part.size());
    }
}

/// Nodes linked through themselves, by `Node* next`, the last one first. Not thread-safe. O(1).
template <class Node>
class chain {
public:
    void push(Node& n) noexcept {
        n.next = std::exchange(first_, &n);
        ++size_;
    }
    /// Takes out the first node. Null: there is none.
    Node* pop() noexcept {
        if (!first_) return nullptr;
        --size_;
        return std::exchange(first_, first_->next);
    }
    Node*       first() const noexcept { return first_; }
    std::size_t size() const noexcept { return size_; }

private:
    Node*       first_ = nullptr;
    std::size_t size_  = 0;
};

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

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/batch/timing_front.hpp>

namespace tenure::detail {

struct batch_record;

/// A pairing heap of deadlines, the earliest on top (Fredman, Sedgewick, Sleator and Tarjan, Algorithmica 1986).
/// Allocates nothing, because the end of a batch removes its deadline. Adding one costs a comparison. Removing one
/// that has not come, as most never do, costs an unlinking. The rest is logarithmic, amortised.
class deadline_heap {
public:
    deadline_node* top() const noexcept { return top_; }

    void add(deadline_node& n) noexcept {
        n.child = n.next = n.before = nullptr;
        n.armed                     = true;
        top_                        = top_ ? merge(top_, &n) : &n;
    }
    void remove(deadline_node& n) noexcept {
        n.armed             = false;
        deadline_node* rest = merge_all(std::exchange(n.child, nullptr));
        if (&n == top_) {
            top_ = rest;
            return;
        }
        (n.before->child == &n ? n.before->child : n.before->next) = n.next;
        if (n.next) n.next->before = n.before;
        if (rest) top_ = merge(top_, rest);
    }

private:
    static deadline_node* merge(deadline_node* a, deadline_node* b) noexcept {
        if (b->due < a->due) std::swap(a, b);
        b->before = a;
        b->next   = a->child;
        if (b->next) b->next->before = b;
        a->child = b;
        return a;
    }
    /// Merges siblings in pairs from left to right, then all of these from right to left.
    static deadline_node* merge_all(deadline_node* first) noexcept {
        deadline_node* pairs = nullptr;
        while (deadline_node* a = first) {
            deadline_node* const b = a->next;
            first                  = b ? b->next : nullptr;
            a->next = a->before = nullptr;
            if (b) {
                b->next = b->before = nullptr;
                a                   = merge(a, b);
            }
            a->next = pairs;
            pairs   = a;
        }
        deadline_node* all = nullptr;
        while (deadline_node* const a = pairs) {
            pairs   = a->next;
            a->next = nullptr;
            all     = all ? merge(all, a) : a;
        }
        return all;
    }

    deadline_node* top_ = nullptr;
};

/// Acts on deadlines when they come, so that batches need not look at the clock themselves.
class deadline_watch {
public:
    virtual ~deadline_watch() = default;

    /// Tells the watch that there is an earlier deadline than before. Any thread, with no lock held.
    virtual void earlier() = 0;
};

/// The deadlines of one registry.
struct deadline_queue : timing_front {
    std::mutex                      mutex;  ///< guards what follows, and all nodes
    deadline_heap                   heap;
    std::shared_ptr<deadline_watch> watch;
    std::atomic<std::uint32_t>      telling{0};  ///< threads in the watch's earlier(); grows under the mutex

    /// Sets a deadline, and tells the watch if it is now the earliest.
    void arm(deadline_node& n, std::uint64_t due) override {
        deadline_watch* tell   = nullptr;
        std::uint64_t   before = 0;
        {
            std::scoped_lock const guard(mutex);
            before = n.deadline.load(std::memory_order_relaxed);
            used.store(true, std::memory_order_relaxed);
            timing_used_anywhere.store(true, std::memory_order_relaxed);
            put(n, due);
            if (heap.top() == &n) tell = watch.get();
            if (tell) telling.fetch_add(1, std::memory_order_relaxed);
        }
        if (!tell) return;
        struct told {
            deadline_queue& q;
            deadline_node*  undo;
            std::uint64_t   due, before;
            ~told() {
                if (undo) q.put_back(*undo, due, before);
                if (q.telling.fetch_sub(1, std::memory_order_acq_rel) == 1) q.telling.notify_all();
            }
        } over{*this, &n, due, before};
        tell->earlier();
        over.undo = nullptr;
    }

    /// Sets the watch; null: none. Returns when no thread is in the former watch, which may not outlive what it
    /// runs on.
    void watch_by(std::shared_ptr<deadline_watch> w) noexcept {
        {
            std::scoped_lock const guard(mutex);
            watch.swap(w);
            watched.store(watch != nullptr, std::memory_order_relaxed);
        }
        while (std::uint32_t const n = telling.load(std::memory_order_acquire))
            telling.wait(n, std::memory_order_acquire);
    }

    /// Forgets the watch, in a forked child, where it has no thread. Makes then look at the clock themselves.
    void lose_watch() noexcept override {
        new (&watch) std::shared_ptr<deadline_watch>;  // the old one may be in the middle of something: it leaks
        watched.store(false, std::memory_order_relaxed);
        telling.store(0, std::memory_order_relaxed);
    }

    void disarm(deadline_node& n) noexcept override {
        std::scoped_lock const guard(mutex);
        put(n, 0);
    }

    void lock_for_fork() noexcept override { mutex.lock(); }
    void unlock_after_fork() noexcept override { mutex.unlock(); }

private:
    /// Sets a deadline; 0: none. Called under the mutex.
    void put(deadline_node& n, std::uint64_t due) noexcept {
        if (n.armed) heap.remove(n);
        n.deadline.store(due, std::memory_order_relaxed);
        n.due = due;
        if (due) heap.add(n);
    }

    /// Sets the deadline that there was before `due`, unless another thread has set one since.
    void put_back(deadline_node& n, std::uint64_t due, std::uint64_t before) noexcept {
        std::scoped_lock const guard(mutex);
        if (n.deadline.load(std::memory_order_relaxed) == due) put(n, before);
    }
};

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <tenure/detail/background/background_queue.hpp>
#include <tenure/detail/base/config.hpp>
#include <tenure/detail/life/ending.hpp>
#include <tenure/detail/life/warming.hpp>
#include <tenure/detail/objects/batch_figures.hpp>
#include <tenure/snapshot.hpp>

namespace tenure::detail {

/// The end of a batch whose destructors another thread runs. The thread that ends the batch makes its handles
/// stale, which takes a few words a unit, and queues it. The rest is release_memory(), as for any batch.
///
/// A batch that waits is `ended`, without holds, and not `done`: to other threads it is an end that takes its
/// time. Its words are guarded, as they are while destructors run; so every access asks, and `reclaim_pending`
/// says that the owner is over. Only the batch's own destructors find it as they would at a closing brace.

TENURE_SHARED inline constinit std::atomic<std::uint32_t> last_pending_reclaim{0};

/// Makes all handles of a batch stale. No other thread can be at the batch. A unit with one owner takes no locked
/// instruction, because each would wait for its unit to come from memory.
inline void mark_dead(batch_record& b) noexcept {
    log_expiry(b);
    b.reclaim_pending.store(true, std::memory_order_relaxed);
    pending_reclaims.fetch_add(1, std::memory_order_relaxed);
    std::uint32_t const number = last_pending_reclaim.fetch_add(1, std::memory_order_relaxed) | std::uint32_t{1}
                                                                                                    << 31;
    auto const tell       = [&](unit& u) { u.over.store(number, std::memory_order_release); };
    auto const tell_among = [&](unit& u) { u.over.exchange(number, std::memory_order_acq_rel); };
    for_lanes(b, [&](lane& l) {
        close_window(l);
        for (unit* u = l.runs; u; u = u->next) {
            bool const shared = u->guarded.load(std::memory_order_relaxed);
            for (std::size_t i = 0; i < u->length; ++i) shared ? tell_among(u[i]) : tell(u[i]);
        }
    });
    for (unit* u = b.large; u; u = u->next) tell(*u);
    {
        std::scoped_lock const guard(b.lock);
        for (share const* s = b.shares; s; s = s->next_owned) tell_among(*s->where);
    }
    guard_all(b);
}

/// Frees a batch that waited for the registry's thread, on that thread or in run_left_over().
inline void finish_end(batch_record& b) noexcept {
    thread_context&     me = this_thread;
    batch_record* const up = b.holds_parent ? b.parent.load(std::memory_order_relaxed) : nullptr;
    me.reclaiming          = &b;
    release_memory(b);
    me.reclaiming = nullptr;
    b.reclaim_pending.store(false, std::memory_order_release);
    pending_reclaims.fetch_sub(1, std::memory_order_release);
    if (b.is_loose) leave_loose(b);
    unlist_child(b);
    if (b.state.fetch_or(batch_flags::done, std::memory_order_acq_rel) & batch_flags::released) recycle(&b);
    release_hold(up);
}

/// The thread of one registry.
class background_thread final : public background_front {
public:
    background_thread(registry_core& r, std::size_t limit) noexcept : registry_(r) { queue_.limit(limit); }

    void start() noexcept override {
        queue_.start([this] { run(); });
    }

    bool put_off(batch_record& b, batch_record*& parent) noexcept override {
        bool ends = any_in_locked_lists(b);
        for_lanes(b, [&](lane const& l) { ends = ends || l.entries; });
        std::size_t const bytes = (figures_of(b).units << unit_shift) + sizeof(batch_record) + sizeof(batch_rest);
        if (!ends || !queue_.admit(bytes)) return false;
        b.rest.waiting_bytes = bytes;
        mark_dead(b);
        if (!must_outlast_background(b)) {
            unlist_child(b);
            uncount_beside(b);
            if (b.holds_parent) parent = b.parent.load(std::memory_order_relaxed);
            b.holds_parent = false;
            b.parent.store(registry_.root, std::memory_order_release);
        }
        if (b.in_chain) b.state.fetch_or(leave_ended(b), std::memory_order_acq_rel);
        b.primary.thread.store(nullptr, std::memory_order_release);
        queue_.put(b);
        return true;
    }

    void warm(std::size_t bytes) noexcept override {
        warm_ = bytes;
        registry_.own.slabs.stay_warm(bytes);
        start();
        queue_.add_chore();
    }

    void drain() noexcept override {
        run_left_over();
        queue_.drain();
    }
    void retire() noexcept override {
        run_left_over();
        queue_.retire();
    }
    void close() noexcept override {
        run_left_over();
        queue_.stop();
    }

    background_info describe() const noexcept override { return {queue_.batches(), queue_.bytes()}; }

    void          lock_for_fork() noexcept override { queue_.lock_for_fork(); }
    void          unlock_after_fork() noexcept override { queue_.unlock_after_fork(); }
    batch_record* lose_thread(batch_record const* own) noexcept override { return queue_.lose_thread(own); }

private:
    void run() noexcept {
        // This thread does not count among those that go on at exit: see end_at_exit().
        return_at_exit();
        process.threads.fetch_sub(1, std::memory_order_relaxed);
        for (;;) {
            if (batch_record* const b = queue_.next()) {
                std::size_t const bytes = b->rest.waiting_bytes;
                finish_end(*b);
                queue_.finished(bytes);
            } else if (!queue_.has_chore()) {
                break;
            } else if (result<std::size_t> const more = warm_some(registry_, warm_); !more || *more == 0) {
                queue_.end_chore();
            }
        }
        process.threads.fetch_add(1, std::memory_order_relaxed);
    }

    /// Frees the batches that wait if the thread is not running, as in a forked child.
    void run_left_over() noexcept {
        while (batch_record* const b = queue_.next_left_over()) {
            std::size_t const bytes  = b->rest.waiting_bytes;
            former_current    before = suspend_for(nullptr);
            finish_end(*b);
            resume(before);
            queue_.finished(bytes);
        }
    }

    registry_core&   registry_;
    std::size_t      warm_ = 0;  ///< bytes, once and before the thread is started
    background_queue queue_;
};

}  // namespace tenure::detail

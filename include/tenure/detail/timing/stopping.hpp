// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <utility>

#include <tenure/detail/base/fork_list.hpp>
#include <tenure/detail/base/owned_ptr.hpp>
#include <tenure/detail/life/ending.hpp>
#include <tenure/detail/timing/deadlines.hpp>
#include <tenure/detail/timing/expiry.hpp>

namespace tenure::detail {

/// What becomes of batches that expire or are cancelled. Nothing more is made in them, their buffers go, and they
/// themselves as soon as no thread is inside. An open guard keeps its objects until it closes: it is asked to
/// stop, as when another thread ends a batch above it.

/// Returns the deadlines of a registry that has them.
inline deadline_queue& deadlines_of(registry_core& r) noexcept { return static_cast<deadline_queue&>(*r.timing); }

/// Sets why a batch goes before its end. False: it had a reason already.
inline bool give_cause(batch_record& b, errc cause) noexcept {
    if (timing_front* const timing = b.registry.load(std::memory_order_relaxed)->timing.get())
        timing->used.store(true, std::memory_order_relaxed);
    b.touch();
    errc none{};
    return b.cause.compare_exchange_strong(none, cause, std::memory_order_acq_rel);
}

/// What stop_making() did. `again`: the caller has a second hold on the batch, and ends it by giving that back.
/// `others`: somebody else is in the batch, or holds it, too.
struct stopped {
    bool again = false, others = true;
};

/// Stops makes in a batch, which the caller holds. A guard is asked to stop. A batch without one is ended, and
/// held once more for that.
inline stopped stop_making(batch_record& b, std::uint64_t id) noexcept {
    if (b.guard.load(std::memory_order_acquire)) {
        stop_guard(b, id);
        return {};
    }
    if (!claim_end(b, id, false, false).mine) return {};
    bool const others =
        (b.state.load(std::memory_order_acquire) & batch_flags::holds) > 2;  // the caller's, and claim_end()'s
    if (others) stop_lanes(b);
    else fire_stop(b);
    return {true, others};
}

/// Drops buffers of held batches, and frees their blocks at its end, when none of these is held any more.
class buffer_drops {
public:
    void drop(batch_record& b) noexcept {
        if (!b.stores.load(std::memory_order_acquire)) return;
        if (!blocks_) blocks_ = front_of_buffers().begin_drop();
        if (blocks_) blocks_->drop(b);  // else memory is full, and they go with the batch
    }

private:
    owned_ptr<buffer_drop_front> blocks_;
};

/// Stops what is below a batch. Unlike end_descendants(), only asks this thread's open guards to stop, and stops
/// detached batches, too.
TENURE_COLD inline void stop_descendants(batch_record& top, errc cause, buffer_drops& dropped) noexcept {
    joint_end loose;
    for_descendants(top, [&](batch_record& b, std::uint64_t id) {
        if (b.state.load(std::memory_order_acquire) & batch_flags::over) return true;
        bool const first = give_cause(b, cause);
        if (!b.guard.load(std::memory_order_acquire) || !stop_guard(b, id))
            loose.add(b, id, b.ends_as(end_flags::manual) && governs(top, &b));
        else if (first) dropped.drop(b);
        return true;
    });
    loose.end([&](batch_record& b) {
        bool const others = (b.state.load(std::memory_order_acquire) & batch_flags::holds) > 1;
        if (others && b.cause.load(std::memory_order_acquire) == cause) dropped.drop(b);
    });
}

/// Stops a batch, and what is below it, for `cause`. False: it was over, or is the root.
inline bool stop_batch(batch_record& b, std::uint64_t id, errc cause) noexcept {
    if (!hold_or_root(b, id) || is_root(b)) return false;
    buffer_drops  dropped;
    bool const    first = give_cause(b, cause);
    stopped const how   = stop_making(b, id);  // from here on no thread comes in, and no batch is opened below
    if (how.others) stop_descendants(b, cause, dropped);
    if (how.others && first) dropped.drop(b);
    if (how.again) release_hold(&b);
    release_hold(&b);
    return true;
}

/// Expires the batches of a registry whose time is up. Returns the time until the next deadline, or no_timeout.
inline std::chrono::nanoseconds expire_overdue(registry_core& r) noexcept {
    deadline_queue& q = deadlines_of(r);
    for (;;) {
        batch_record* b  = nullptr;
        std::uint64_t id = 0;
        {
            std::scoped_lock const guard(q.mutex);
            std::uint64_t const    now = q.now();
            deadline_node* const   n   = q.heap.top();
            if (!n) return no_timeout;
            if (n->due > now) return std::chrono::nanoseconds(n->due - now);
            q.heap.remove(*n);
            b  = n->batch;
            id = b->id.load(std::memory_order_acquire);
            if (id == 0) {  // it is just being opened: again in 1 ms
                n->due = now + 1'000'000;
                q.heap.add(*n);
            }
        }
        if (!id || stop_batch(*b, id, errc::expired)) continue;
        // The batch is over; or this thread is taking or ending a checkpoint of it: then again in 1 ms.
        std::scoped_lock const guard(q.mutex);
        std::uint64_t const    s = b->state.load(std::memory_order_acquire);
        if (!same_batch(s, id) || !(s & batch_flags::undoing) || b->rest.timer.armed ||
            !b->rest.timer.deadline.load(std::memory_order_relaxed))
            continue;
        b->rest.timer.due = q.now() + 1'000'000;
        q.heap.add(b->rest.timer);
    }
}

/// The stop_source of a batch.
struct stop_of_batch final : stop_front {
    void request_stop() noexcept override { source.request_stop(); }

    std::stop_source source;
};

/// Returns the batch's stop_token; for a batch that is over, one that has been asked to stop. The first call makes
/// the stop_source. Throws std::bad_alloc.
inline std::stop_token stop_token_of(batch_record& b, std::uint64_t id) {
    if (!hold(b, id, unless_over)) {
        std::stop_source over;
        over.request_stop();
        return over.get_token();
    }
    struct guard {
        batch_record* b;
        ~guard() { release_hold(b); }
    } const undo{&b};
    stop_front* s = b.stop.load(std::memory_order_acquire);
    if (!s) {
        auto fresh = std::make_unique<stop_of_batch>();
        b.touch();
        if (b.stop.compare_exchange_strong(s, fresh.get(), std::memory_order_seq_cst)) s = fresh.release();
        if (b.state.load(std::memory_order_seq_cst) & batch_flags::closed) s->request_stop();
    }
    return static_cast<stop_of_batch*>(s)->source.get_token();
}

/// The timing of one registry.
class registry_timing final : public deadline_queue {
public:
    bool stop(batch_record& b, std::uint64_t id, errc cause) noexcept override { return stop_batch(b, id, cause); }
    void log(batch_record& b, errc cause) noexcept override { log_batch(b, cause); }
    void note(place const& p, batch_record const& b, errc cause) noexcept override { note_expiry(p, b, cause); }

    /// The lock of the log that registries share, at a fork. Called before the first entry, with no lock held.
    static void be_ready_for_forks() noexcept { add_for_ever(at_fork); }

    TENURE_SHARED inline static constinit fork_node at_fork{
        .lock   = [](void*) noexcept { expiries.lock_for_fork(); },
        .unlock = [](void*) noexcept { expiries.unlock_after_fork(); }};
};

}  // namespace tenure::detail

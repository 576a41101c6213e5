// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include <tenure/detail/base/fork_list.hpp>
#include <tenure/detail/life/calls.hpp>

namespace tenure::detail {

/// Claims a batch for a call that goes through all that it owns. Meanwhile nobody else is in the batch, and threads
/// that come wait. Calls of this thread are refused, as in a batch that has ended. The batch must not be the root.
/// `to_move`: what is listed below it may be there, and walks through what is below another batch pass it over.
class exclusive_claim {
public:
    exclusive_claim(batch_record& b, std::uint64_t id, std::uint64_t unless, bool to_move = false) noexcept
        : flags_(batch_flags::undoing | (to_move ? batch_flags::moving : 0)) {
        if (!hold(b, id, unless)) {
            why_ = over_because(&b, id);
            return;
        }
        batch_ = &b;
        be_in(b);
        paging_state const before = claim_paging(b);  // so that no page-out is tried meanwhile
        why_                      = claim(b) ? errc{} : errc::batch_in_use;
        end_claim_of_paging(b, before);
        if (why_ != errc{}) return;
        b.busy_thread.store(&this_thread, std::memory_order_release);
        ++this_thread.undoing;
    }
    ~exclusive_claim() {
        if (!batch_) return;
        if (why_ == errc{} && !over_) let_go();
        release_hold(batch_);
    }
    exclusive_claim(exclusive_claim const&)            = delete;
    exclusive_claim& operator=(exclusive_claim const&) = delete;

    /// Returns why the claim failed, errc{} if it succeeded.
    errc why() const noexcept { return why_; }

    /// Waits for threads that free objects which left this batch but have entries in its lists. In a child that a
    /// destructor forked meanwhile there are none.
    void await_others() const noexcept {
        while ((batch_->state.load(std::memory_order_acquire) & batch_flags::holds) > mine_ && !made_.in_child()) {
            will_call_out();  // the object's destructor is the user's, and may ask for this batch
            ::sched_yield();
        }
    }

    /// Ends the claim early. The batch is held as long as this lives.
    void let_go() noexcept {
        over_ = true;
        --this_thread.undoing;
        batch_->checkpoint_calls_out.store(false, std::memory_order_relaxed);
        batch_->busy_thread.store(nullptr, std::memory_order_relaxed);
        batch_->state.fetch_and(~flags_, std::memory_order_acq_rel);
    }

    /// Announces that destructors or stores will run. A thread that would pin something of the batch is then
    /// refused instead of waiting.
    void will_call_out() const noexcept { batch_->checkpoint_calls_out.store(true, std::memory_order_release); }
    /// Ends what will_call_out() announced.
    void has_called_out() const noexcept { batch_->checkpoint_calls_out.store(false, std::memory_order_release); }

private:
    bool claim(batch_record& b) noexcept {
        thread_context const* const guard = b.guard.load(std::memory_order_acquire);
        if (b.in_chain.load(std::memory_order_relaxed) && guard != &this_thread) return false;
        std::uint64_t s = b.state.load(std::memory_order_acquire);
        do {
            std::scoped_lock const lock(b.lock);
            mine_        = 1;
            bool foreign = false;
            if (flags_ & batch_flags::moving)
                for (batch_record* c = b.rest.oldest_child; c; c = c->rest.newer_sibling) ++mine_;
            for_lanes(b, [&](lane const& l) {
                mine_ += l.users.load(std::memory_order_relaxed);
                foreign = foreign || (l.users.load(std::memory_order_relaxed) && !is_mine(&l));
            });
            if (foreign || (s & batch_flags::holds) != mine_ || s & batch_flags::undoing) return false;
        } while (!b.state.compare_exchange_weak(s, s | flags_, std::memory_order_acq_rel));
        return true;
    }

    std::uint64_t flags_;
    batch_record* batch_ = nullptr;
    std::uint64_t mine_  = 0;
    errc          why_{};
    bool          over_ = false;  ///< let_go() was called
    fork_mark     made_;
};

}  // namespace tenure::detail

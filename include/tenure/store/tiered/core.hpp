// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include <tenure/detail/base/fork_list.hpp>
#include <tenure/detail/blocks/block_table.hpp>
#include <tenure/detail/blocks/gather_space.hpp>
#include <tenure/store/adaptor/parts.hpp>
#include <tenure/store/concept.hpp>
#include <tenure/store/tiered/figures.hpp>
#include <tenure/store/tiered/tier_pair.hpp>

namespace tenure::detail {

/// The states of a tiered_store's blocks, their tiers and order of use. One lock, given up for every call of a
/// tier.
template <class Fast, class Slow>
class tiered_core {
    using entry   = tiered_block;
    using entries = chain<entry>;
    using lock    = std::unique_lock<std::mutex>;

public:
    tiered_core(tier_pair<Fast, Slow> tiers, std::size_t fast_limit) noexcept
        : tiers_(std::move(tiers)), fast_limit_(fast_limit) {}

    ~tiered_core() {
        entries         all;
        std::error_code unheard;
        table_.for_each([&](std::uint64_t, entry& e) {
            if (!e.lost) all.push(e);
        });
        release(all, unheard);
    }

    result<block> allocate(std::size_t bytes, std::size_t alignment) {
        lock                guard(lock_);
        std::uint64_t const id = table_.insert(entry(bytes, alignment));
        if (!id) return make_error_code(errc::memory_full);
        entry& e = *table_.find(id);
        e.id     = id;
        if (!unlocked(guard, [&] { return gather_.reserve(2 * table_.size()); })) {
            forget(e);
            return make_error_code(errc::memory_full);
        }
        result<block> home = place(bytes, alignment, guard);
        e.fast             = home.has_value();
        if (!home && is_full(home.error()))
            home = unlocked(guard, [&] { return tiers_.slow->allocate(bytes, alignment); });
        if (!home) {
            forget(e);
            return home.error();
        }
        e.home    = *home;
        e.claimed = false;
        count(e, 1);
        if (e.fast) order_.touch(e);
        return block{id, bytes};
    }

    result<void> deallocate(std::span<block const> many) noexcept {
        entries         batch;
        std::error_code wrong;
        {
            std::scoped_lock const guard(lock_);
            std::swap(batch, left_);
        }
        for_each_locked(lock_, many, [&](block b) {
            if (entry* const e = find(b)) claim(*e, batch);
            else wrong = errc::no_such_block;
        });
        release(batch, wrong);
        if (wrong) return wrong;
        return {};
    }

    /// Calls operation(tier, home) for the tier that has the block.
    template <class Operation>
    result<void> use(block b, std::size_t offset, std::size_t bytes, Operation operation) {
        lock         guard(lock_);
        entry* const e = find_settled(b, guard);
        if (!e) return make_error_code(errc::no_such_block);
        if (e->lost) return make_error_code(errc::forked);
        if (offset > e->bytes || bytes > e->bytes - offset) return make_error_code(errc::out_of_range);
        if (bytes == 0) return {};
        enter(*e, guard);
        block const  home = e->home;
        bool const   fast = e->fast;
        result<void> outcome =
            unlocked(guard, [&] { return fast ? operation(*tiers_.fast, home) : operation(*tiers_.slow, home); });
        leave(*e, guard);
        return outcome;
    }

    /// Promotes the block if there is room, and holds it in its tier until it is unpinned as often.
    result<void> pin(block b) {
        lock         guard(lock_);
        entry* const e = find_settled(b, guard);
        if (!e) return make_error_code(errc::no_such_block);
        if (e->lost) return make_error_code(errc::forked);
        enter(*e, guard);
        ++e->pins;
        order_.remove(*e);
        leave(*e, guard);
        return {};
    }
    void unpin(std::uint64_t id) noexcept {
        lock const   guard(lock_);
        entry* const e = table_.find(id);
        if (!e) return;
        --e->pins;
        if (e->may_go()) order_.touch(*e);
    }

    tiered_figures figures() const noexcept {
        lock const     guard(lock_);
        tiered_figures f = figures_;
        f.left_behind    = left_.size();
        return f;
    }

    tier_pair<Fast, Slow> const& tiers() const noexcept { return tiers_; }
    std::size_t                  fast_limit() const noexcept { return fast_limit_; }

private:
    // --- one block: from here on called with the lock held; functions with `guard` may give it up ---------------

    entry* find(block b) noexcept {
        entry* const e = table_.find(b.id);
        return e && e->live() && e->bytes == b.bytes ? e : nullptr;
    }

    entry* find_settled(block b, lock& guard) {
        for (;;) {
            entry* const e = find(b);
            if (!e || !e->mover || e->lost) return e;
            settled_.wait(guard);
        }
    }

    /// Marks the block as used: its bytes stay in one tier until leave(). First promotes an idle block of the slow
    /// tier.
    void enter(entry& e, lock& guard) {
        ++e.users;
        if (e.fast) {
            if (e.may_go()) order_.touch(e);
        } else if (e.users == 1 && e.pins == 0 && e.bytes <= fast_limit_) {
            promote(e, guard);
        }
    }
    void leave(entry& e, lock& guard) noexcept {
        --e.users;
        if (e.doomed && !e.busy()) mark_dead(e, guard);
    }

    void count(entry const& e, int n) noexcept {
        tier_figures& t = e.fast ? figures_.fast : figures_.slow;
        t.bytes += n > 0 ? e.bytes : 0 - e.bytes;
        t.blocks += n > 0 ? 1 : 0 - std::size_t{1};
    }

    void forget(entry& e) noexcept {
        entry gone;
        table_.erase(e.id, gone);
    }

    // --- moves --------------------------------------------------------------------------------------------------

    /// Allocates in the fast tier and demotes blocks to make room. Errors: store_full or the tier's if there is
    /// none.
    result<block> place(std::size_t bytes, std::size_t alignment, lock& guard) {
        if (bytes > fast_limit_) return make_error_code(errc::store_full);
        while (fast_bytes_ > fast_limit_ - bytes)
            if (!demote_oldest(guard)) return make_error_code(errc::store_full);
        fast_bytes_ += bytes;
        // The tier may have less room than it says, or fragmented room. Then more blocks have to go.
        for (std::size_t gone = 0;;) {
            result<block> const b = unlocked(guard, [&] { return tiers_.fast->allocate(bytes, alignment); });
            if (b) return b;
            std::optional<std::size_t> const demoted =
                is_full(b.error()) && gone <= 2 * bytes ? demote_oldest(guard) : std::nullopt;
            if (!demoted) {
                fast_bytes_ -= bytes;
                return b;
            }
            gone += *demoted + 1;
        }
    }

    /// Demotes the least recently used idle block. Returns the bytes that came free; nothing if none did.
    std::optional<std::size_t> demote_oldest(lock& guard) {
        entry* e = order_.oldest();
        while (e && e->users) e = e->newer;
        if (!e) return std::nullopt;
        begin_move(*e);
        std::size_t const     before = e->in_fast();
        std::error_code const wrong  = unlocked(guard, [&] { return tiers_.demote(*e); });
        ++(wrong ? figures_.failed_demotions : figures_.demotions);
        if (wrong) figures_.last_error = wrong;
        bool const room = !wrong && !e->spare.id;
        end_move(*e, before, !wrong, guard);
        return room ? std::optional(before) : std::nullopt;
    }

    /// Moves the block to the fast tier. Without room it stays in the slow tier, which is no failure.
    void promote(entry& e, lock& guard) {
        begin_move(e);
        std::size_t     before = e.in_fast();  // its spare
        std::error_code wrong  = unlocked(guard, [&] { return tiers_.drop_spare(e); });
        if (!wrong) {
            fast_bytes_ -= std::exchange(before, 0);
            result<block> const copy = place(e.bytes, e.alignment, guard);
            if (copy) {
                before = e.bytes;  // counted by place()
                wrong  = unlocked(guard, [&] { return tiers_.promote(e, *copy); });
            } else {
                wrong = copy.error();
            }
        }
        if (!wrong) ++figures_.promotions;
        else if (!is_full(wrong)) ++figures_.failed_promotions, figures_.last_error = wrong;
        end_move(e, before, !wrong, guard);
    }

    void begin_move(entry& e) noexcept {
        order_.remove(e);
        e.mover = this_threads_name();
    }

    /// Ends a move. `before`: the block's bytes that fast_bytes_ counts now.
    void end_move(entry& e, std::size_t before, bool moved, lock& guard) noexcept {
        if (moved) {
            if (e.live()) count(e, -1);
            e.fast = !e.fast;
            if (e.live()) count(e, 1);
        }
        fast_bytes_ = fast_bytes_ - before + e.in_fast();
        e.mover     = nullptr;
        if (e.may_go()) order_.touch(e);
        settled_.notify_all();
        if (e.doomed && !e.busy()) mark_dead(e, guard);
    }

    /// Marks blocks that other threads were moving, in a forked child. It has one thread, so none has to be
    /// notified.
    static void lose_others(void* self) noexcept {
        auto& me = *static_cast<tiered_core*>(self);
        new (&me.settled_) std::condition_variable;  // the old one's destructor would wait for its waiters
        me.table_.for_each([](std::uint64_t, entry& e) {
            if (e.mover && e.mover != this_threads_name()) e.lost = true;
        });
    }

    // --- freeing ------------------------------------------------------------------------------------------------

    void claim(entry& e, entries& batch) noexcept {
        order_.remove(e);
        if (e.busy()) {
            e.doomed = true;
            count(e, -1);
        } else {
            e.claimed = true;
            batch.push(e);
        }
    }

    /// Frees a doomed block, in the last thread that used or moved it.
    void mark_dead(entry& e, lock& guard) noexcept {
        std::size_t const before = e.in_fast();
        guard.unlock();
        tiers_.drop_home(e);
        tiers_.drop_spare(e);
        guard.lock();
        fast_bytes_ = fast_bytes_ - before + e.in_fast();
        end(e);
    }

    /// Erases a doomed block, or leaves it for the next deallocate() if a tier still has a copy.
    void end(entry& e) noexcept {
        if (e.names()) left_.push(e);
        else forget(e);
    }

    /// Frees a batch, without the lock. A block whose home could not be freed lives on.
    void release(entries& batch, std::error_code& wrong) noexcept {
        tiers_.free(batch, gather_, [&](entry& e, bool home, bool spare, result<void> const& outcome) {
            lock const        guard(lock_);
            std::size_t const before = e.in_fast();
            if (home) e.home = {};
            if (spare) e.spare = {};
            fast_bytes_ = fast_bytes_ - before + e.in_fast();
            if (!home && !e.doomed) {
                e.claimed = false;
                if (e.may_go()) order_.touch(e);
                wrong = outcome.error();  // tells the caller more than no_such_block
                return;
            }
            if (!e.doomed) {
                e.doomed = true;
                count(e, -1);
            }
            end(e);
        });
    }

    tier_pair<Fast, Slow> const tiers_;
    std::size_t const           fast_limit_;

    block_table<entry> table_;  ///< its lock is taken inside lock_
    gather_space       gather_;

    mutable fork_mutex      lock_{this, &lose_others};  ///< guards members without a lock of their own
    std::condition_variable settled_;
    std::size_t             fast_bytes_ = 0;  ///< homes and spares in the fast tier, or on their way there
    tiered_figures          figures_;
    use_order<entry>        order_;  ///< blocks that may be demoted
    entries                 left_;
};

}  // namespace tenure::detail

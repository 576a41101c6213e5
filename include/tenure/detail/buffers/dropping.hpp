// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include <sched.h>

#include <tenure/detail/base/hash_index.hpp>
#include <tenure/detail/batch/buffers_front.hpp>
#include <tenure/detail/buffers/buffer_access.hpp>
#include <tenure/detail/buffers/stored.hpp>
#include <tenure/detail/life/release.hpp>

namespace tenure::detail {

/// Collects blocks that batches lost, in lists by store, and frees each list in one call at its end. No batch is
/// held then: a store may take its time, and must not keep a guard from closing. Blocks that a store cannot free
/// are tried again with others of its supply.
class dropped_blocks final : public buffer_drop_front {
public:
    ~dropped_blocks() override {
        bool departed = false;
        while (std::unique_ptr<part> const p = std::exchange(first_, nullptr)) {
            first_ = std::move(p->next);
            if (auto const done = p->from->store.deallocate(p->blocks->blocks()); !done)
                p->from->refused.add(std::move(p->blocks), done.error());
            departed = leave_supply_later(*p->from) || departed;
        }
        if (departed) end_departing();
    }

    void drop(batch_record& b) noexcept override;

    /// Returns a list with room for one more block; a new one has room for `room()`. Null if memory is full.
    template <class F>
    block_list* list_for(supply& s, F room) noexcept {
        part* const last = newest_.first(to_address(&s));
        if (last && last->blocks->count < last->blocks->room) return last->blocks.get();
        owned_block_list      list = make_block_list(room());
        std::unique_ptr<part> more(list ? new (std::nothrow) part{&s, std::move(list)} : nullptr);
        if (!more) return nullptr;
        hold_supply(s);
        if (last) newest_.erase(*last);
        newest_.insert(to_address(&s), *more);
        more->next = std::move(first_);
        first_     = std::move(more);
        return first_->blocks.get();
    }

private:
    struct part {
        supply*               from;
        owned_block_list      blocks;
        std::unique_ptr<part> next{};
        std::uint64_t         index_key  = 0;
        part*                 index_next = nullptr;
    };

    std::unique_ptr<part> first_;
    hash_index<part>      newest_;  ///< of each supply's
};

/// Takes the blocks of buffers in a batch that is cancelled, or whose time is up, while a thread is still inside.
/// The buffers go with the batch. Those that are pinned, lent, mapped, in transit or read by a derivation keep
/// their blocks; a block that a thread is accessing goes with the batch.
///
/// The batch is held, and nothing is made in it any more. One thread at a time.
class buffers_drop {
public:
    buffers_drop(batch_record& b, dropped_blocks& to) noexcept : batch_(b), to_(to) {}

    void run() noexcept {
        {
            std::scoped_lock const guard(batch_.lock);
            batch_.next_buffer = batch_.first_buffer;
        }
        while (take_some() > 0) {
            heavy_barrier();
            for (std::size_t i = 0; i < count_; ++i) settle(taken_[i]);
        }
        refund_batch(batch_, bytes_);
    }

private:
    struct taken {
        buffer_record const* buffer;
        supply*              from;
        block                where;
    };

    /// Marks the next buffers as evicted, as many as `taken_` has room for. Returns how many; 0 at the end of the
    /// list.
    std::size_t take_some() noexcept {
        count_ = 0;
        while (count_ < taken_.size() && take_next()) {}
        return count_;
    }

    /// Takes the next buffer's block, if it may. Returns false after the last. Entries stay in the list while the
    /// batch is locked; an object's lock comes before that, so it is only tried here.
    bool take_next() noexcept {
        registry_core& r    = *batch_.registry.load(std::memory_order_relaxed);
        bool           used = false;
        for (;; ::sched_yield()) {
            auto const             graph = used ? std::unique_lock(*r.uses) : std::unique_lock<uses_front>();
            std::scoped_lock const guard(batch_.lock);
            entry* const           e = batch_.next_buffer;
            if (!e) return false;
            extent const x{to_address(e), round_extent(sizeof(entry) + sizeof(buffer_record)), nullptr, e};
            object_lock_if_free const object(x);
            if (!object) continue;
            if (!used && batch_.state.load(std::memory_order_acquire) & batch_flags::used) {
                used = true;
                continue;
            }
            batch_.next_buffer = e->next;
            take(*as_buffer(x), used && r.uses->find(x.begin));
            return true;
        }
    }

    void take(buffer_record& b, bool pinned) noexcept {
        if (pinned || b.lent() || b.in_transit() || b.mapped() || b.readers()) return;
        if (derivation_front* const how = b.made_by()) how->count_use(false);
        taken_[count_++] = {&b, b.from, b.where};
        b.set_lent(true);
        b.set_evicted(true);
    }

    /// Adds the block to those to be freed. Leaves it to the end of the batch if a thread is accessing the buffer,
    /// or if there is no memory to remember the block.
    void settle(taken const& t) noexcept {
        bool const             stays = is_accessed(t.buffer);
        block_list* const      list  = stays ? nullptr : to_.list_for(*t.from, [&] { return buffers_in(*t.from); });
        std::scoped_lock const guard(batch_.lock);
        stored&                in = *find_stored(batch_, *t.from);
        (list ? list : in.to_free.get())->add(t.where);
        if (!list) return;
        in.went += t.where.bytes;
        bytes_ += t.where.bytes;
    }
    std::size_t buffers_in(supply const& s) noexcept {
        std::scoped_lock const guard(batch_.lock);
        return find_stored(batch_, s)->live().buffers;
    }

    batch_record&          batch_;
    dropped_blocks&        to_;
    std::size_t            count_ = 0, bytes_ = 0;
    std::array<taken, 256> taken_{};
};

/// Does nothing if a checkpoint could bring contents back, or has.
TENURE_COLD inline void dropped_blocks::drop(batch_record& b) noexcept {
    constexpr std::uint64_t not_now = batch_flags::undoing | batch_flags::checkpointed;
    if (b.state.load(std::memory_order_acquire) & not_now || b.rest.rolled_back.load(std::memory_order_acquire))
        return;
    be_in(b);
    buffers_drop(b, *this).run();
}

}  // namespace tenure::detail

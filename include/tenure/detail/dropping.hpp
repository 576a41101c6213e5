// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <thread>
#include <utility>

#include <tenure/detail/buffer_access.hpp>
#include <tenure/detail/letting_go.hpp>

namespace tenure::detail {

/// The buffers of a batch that is cancelled, or whose time is up, while somebody is still inside: their blocks go
/// at once, and the buffers themselves, without bytes, with the batch. What is pinned stays, what a thread is just
/// at, and what somebody has the address of.
///
/// The batch is held, and nothing is made in it any more. One thread at a time.
class buffers_drop {
public:
    explicit buffers_drop(batch_record& b) noexcept : batch_(b) {}
    ~buffers_drop() { free_all(); }
    buffers_drop(buffers_drop const&)            = delete;
    buffers_drop& operator=(buffers_drop const&) = delete;

    void run() noexcept {
        {
            std::scoped_lock const guard(batch_.lock);
            batch_.next_buffer = batch_.first_buffer;
        }
        while (take_some() > 0) {
            heavy_barrier();
            for (std::size_t i = 0; i < count_; ++i) settle(taken_[i]);
        }
    }

private:
    struct taken {
        buffer_record const* buffer;
        supply*              from;
        block                where;
    };
    struct part {
        supply*          from = nullptr;
        owned_block_list blocks;
    };

    static constexpr std::size_t at_once = 64;

    /// From here on these say that they have no bytes.
    std::size_t take_some() noexcept {
        count_ = 0;
        while (count_ < at_once && take_next()) {}
        return count_;
    }

    /// False: that was the last. What is in the batch's list stays there as long as that is locked, so an object's
    /// lock, which would come first, can only be tried.
    bool take_next() noexcept {
        registry_core& r    = *batch_.registry.load(std::memory_order_relaxed);
        bool           used = false;
        for (;; std::this_thread::yield()) {
            std::unique_lock graph(r.uses.mutex, std::defer_lock);
            if (used) graph.lock();
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
            take(*as_buffer(x), used && r.uses.find(x.begin));
            return true;
        }
    }

    void take(buffer_record& b, bool pinned) noexcept {
        if (pinned || b.lent() || b.in_transit() || b.mapped() || b.readers()) return;
        if (recipe* const how = b.made_by()) count_uses(*how, false);
        taken_[count_++] = {&b, b.from, b.where};
        b.set_lent(true);
        b.set_evicted(true);
    }

    /// What a thread is at goes at the end of the batch; and so does what there is no memory to remember.
    void settle(taken const& t) noexcept {
        part* const            p = is_accessed(t.buffer) ? nullptr : part_for(*t.from);
        std::scoped_lock const guard(batch_.lock);
        if (p && p->blocks->count < p->blocks->room) p->blocks->add(t.where);
        else find_stored(batch_, *t.from)->to_free->add(t.where);
    }

    part* part_for(supply& s) noexcept {
        part* free = nullptr;
        for (part& p : parts_) {
            if (p.from == &s) return &p;
            if (!p.from) free = &p;
        }
        if (!free) {
            free_all();
            free = parts_.data();
        }
        std::size_t room = 0;
        {
            std::scoped_lock const guard(batch_.lock);
            room = find_stored(batch_, s)->live().buffers;
        }
        free->blocks = make_block_list(room);
        if (!free->blocks) return nullptr;
        free->from = &s;
        return free;
    }

    /// One call a store.
    void free_all() noexcept {
        for (part& p : parts_) {
            if (!p.from) continue;
            free_list(*std::exchange(p.from, nullptr), std::move(p.blocks));
        }
    }
    void free_list(supply& s, owned_block_list blocks) noexcept {
        auto const        done = s.store.deallocate(blocks->blocks());
        std::size_t const sum  = blocks->bytes();
        {
            std::scoped_lock const guard(batch_.lock);
            stored&                in = *find_stored(batch_, s);
            for (block const& gone : blocks->blocks()) in.freed += gone.bytes;
            if (!done) {
                ++batch_.store_errors;
                batch_.store_error = done.error();
            }
        }
        refund_batch(batch_, sum);
        if (!done) s.refused.add(std::move(blocks), done.error());
    }

    batch_record&              batch_;
    std::size_t                count_ = 0;
    std::array<taken, at_once> taken_{};
    std::array<part, 4>        parts_{};
};

TENURE_COLD inline void drop_buffers(batch_record& b) noexcept {
    constexpr std::uint64_t not_now = batch_flags::undoing | batch_flags::checkpointed;
    if (!b.stores.load(std::memory_order_acquire) || b.state.load(std::memory_order_acquire) & not_now) return;
    be_in(b);
    buffers_drop(b).run();
}

}  // namespace tenure::detail

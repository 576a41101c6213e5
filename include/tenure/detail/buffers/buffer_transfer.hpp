// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include <tenure/detail/base/hash_index.hpp>
#include <tenure/detail/batch/buffers_front.hpp>
#include <tenure/detail/buffers/store_notify.hpp>

namespace tenure::detail {

/// Moves buffers from the books of one batch to those of another.
class buffer_transfer final : public buffer_transfer_front {
public:
    buffer_transfer(batch_record& from, batch_record& to) noexcept : from_(from), to_(to), stores_(from, to) {}
    ~buffer_transfer() override {
        promised_.drain([&](promised& p) {
            if (p.count) release_promise(to_, *p.from, p.count);
            delete &p;
        });
    }

    buffer_seen look(entry* e) const noexcept override { return look(buffer_behind(e)); }

    bool promise(supply& from) noexcept override {
        promised* p = find(from);
        if (!p) {
            p = new (std::nothrow) promised{.from = &from};
            if (!p) return false;
            promised_.insert(to_address(&from), *p);
        }
        if (!detail::promise(to_, from)) return false;
        ++p->count;
        return true;
    }

    /// A lent block is in neither batch's books; its promise only made sure that `to` uses the supply.
    bool move(entry* e, buffer_seen& seen) noexcept override {
        buffer_record& b  = buffer_behind(e);
        seen              = look(b);
        lost              = lost || seen.dropped;
        promised* const p = find(*b.from);
        if (seen.dropped || !p || p->count == 0) return false;
        if (b.lent()) return true;
        --p->count;
        change_books(b);
        b.set_in_transit(seen.in_transit = stores_.concerns(b));
        return true;
    }

    void move_untold(entry* e) noexcept override {
        buffer_record const& b = buffer_behind(e);
        if (b.lent()) return;
        --find(*b.from)->count;
        change_books(b);
        if (b.from->store.capabilities().batched) stores_.leave_untold(*b.from);
    }

    void add(raw_handle h, buffer_seen const& moved) noexcept override { stores_.add(h, *moved.from, moved.where); }

private:
    /// Counts buffers in one store that are to be moved.
    struct promised {
        supply*       from;
        std::size_t   count      = 0;
        std::uint64_t index_key  = 0;
        promised*     index_next = nullptr;
    };

    promised* find(supply const& from) const noexcept { return promised_.first(to_address(&from)); }

    void change_books(buffer_record const& b) noexcept {
        remove_stored(from_, *b.from, b.where.bytes, &stored::went);
        redeem(to_, *b.from, b.where.bytes, &stored::came);
    }

    buffer_seen look(buffer_record const& b) const noexcept {
        bool const dropped = b.evicted() && !b.made_by() && from_.cause.load(std::memory_order_acquire) != errc{};
        return {b.from, b.where, b.lent() ? 0 : b.where.bytes, b.in_transit(), dropped};
    }

    batch_record&        from_;
    batch_record&        to_;
    store_notify         stores_;  ///< whose end tells them
    hash_index<promised> promised_;
};

}  // namespace tenure::detail

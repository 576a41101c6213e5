// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/hash_index.hpp>
#include <tenure/detail/buffers/buffer_record.hpp>
#include <tenure/detail/buffers/stored.hpp>
#include <tenure/detail/objects/tracking.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Tells stores that know blocks by batch which of them changed hands: in one call to each, once no lock is held.
///
/// The books here decide which batch owns a buffer. What such a store knows decides only what the end of a batch
/// frees by the batch's id. So a call that fails makes nothing else fail, but the ends of both batches then name
/// their blocks. Until its store is told, a buffer is in transit and goes nowhere else. Both batches are held, so
/// neither ends before the store knows.
class store_notify {
public:
    store_notify(batch_record& from, batch_record& to) noexcept : from_(from), to_(to) {}
    ~store_notify() {
        parts_.drain([&](part& p) {
            tell(p);
            delete &p;
        });
        if (counted_) under_way.fetch_sub(1, std::memory_order_relaxed);
    }
    store_notify(store_notify const&)            = delete;
    store_notify& operator=(store_notify const&) = delete;

    /// Returns whether the buffer's store has to be told. Called under the buffer's lock, before the buffer is in
    /// transit.
    bool concerns(buffer_record const& b) noexcept {
        if (b.lent() || !b.from->store.capabilities().batched) return false;
        if (!std::exchange(counted_, true)) under_way.fetch_add(1, std::memory_order_relaxed);
        return true;
    }

    /// Notes a buffer in transit. If memory is full, its store is not told, and the ends of both batches name
    /// their blocks.
    void add(raw_handle h, supply& in, block where) noexcept {
        auto const note = [&] {
            part& p = part_of(in);
            p.blocks.push_back(where);
            p.handles.push_back(h);
        };
        auto const forget = [&](std::bad_alloc const&) {
            leave_untold(in);
            set_told(h);
        };
        run_or<std::bad_alloc>(note, forget);
    }

    /// Has the ends of both batches name their blocks in a store.
    void leave_untold(supply const& s) noexcept {
        set_untold(from_, s);
        set_untold(to_, s);
    }

    /// Returns, in a forked child, whether other threads of the parent may have left buffers in transit. Their
    /// batches stay held, so it does not matter what the store has heard.
    static bool left_some() noexcept { return under_way.load(std::memory_order_relaxed) > 0; }
    static void forget_transits(batch_record& b) noexcept {
        for (entry* e = b.first_buffer; e; e = e->next) buffer_behind(e).set_in_transit(false);
    }

    TENURE_SHARED inline static constinit std::atomic<std::uint32_t> under_way{0};

private:
    struct part {
        supply*                 in;
        std::vector<raw_handle> handles{};
        std::vector<block>      blocks{};
        std::uint64_t           index_key  = 0;
        part*                   index_next = nullptr;
    };

    part& part_of(supply& s) {
        part* p = parts_.first(to_address(&s));
        if (!p) parts_.insert(to_address(&s), *(p = new part{.in = &s}));
        return *p;
    }

    void tell(part& p) noexcept {
        std::size_t const n = std::min(p.handles.size(), p.blocks.size());
        if (!p.in->store.try_transfer({p.blocks.data(), n}, to_.id.load(std::memory_order_relaxed)))
            leave_untold(*p.in);
        for (raw_handle const h : p.handles) set_told(h);
    }

    static void set_told(raw_handle h) noexcept {
        extent const      x = extent_of(h);
        object_lock const guard(x);
        if (!is_alive(h, true)) return;
        if (buffer_record* const b = as_buffer(x)) b->set_in_transit(false);
    }

    static void set_untold(batch_record& b, supply const& s) noexcept {
        std::scoped_lock const guard(b.lock);
        if (stored* const in = find_stored(b, s)) in->untold = true;
    }

    batch_record&    from_;
    batch_record&    to_;
    hash_index<part> parts_;
    bool             counted_ = false;  ///< in `under_way`
};

}  // namespace tenure::detail

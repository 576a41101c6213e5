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
#include <tenure/detail/buffers/buffer_record.hpp>
#include <tenure/detail/objects/stored.hpp>
#include <tenure/detail/objects/tracking.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Stores that know blocks by batch are told which of them changed hands: in one call a store, once nobody's lock
/// is held any more.
///
/// Whose a buffer is, is decided in the books here; what such a store knows decides only what the end of a batch
/// frees by the batch's number. So a call that fails makes nothing else fail, but the ends of both batches then
/// name their blocks. Until a store is told of it, a buffer is in transit and goes nowhere else; and both batches
/// are held, so that neither ends on what the store does not know yet.
class store_notify {
public:
    store_notify(batch_record& from, batch_record& to) noexcept : from_(from), to_(to) {}
    ~store_notify() {
        for (part& p : parts_) tell(p);
        if (counted_) under_way.fetch_sub(1, std::memory_order_relaxed);
    }
    store_notify(store_notify const&)            = delete;
    store_notify& operator=(store_notify const&) = delete;

    /// To be asked under the buffer's lock, before it is in transit.
    bool concerns(buffer_record const& b) noexcept {
        if (b.lent() || !b.from->store.capabilities().batched) return false;
        if (!std::exchange(counted_, true)) under_way.fetch_add(1, std::memory_order_relaxed);
        return true;
    }

    void add(raw_handle h, buffer_record const& b) noexcept {
        auto const note = [&] {
            part& p = part_of(*b.from);
            p.blocks.push_back(b.where);
            p.handles.push_back(h);
        };
        auto const forget = [&](std::bad_alloc const&) {
            give_up(*b.from);
            set_told(h);
        };
        run_or<std::bad_alloc>(note, forget);
    }

    /// In a forked child: whether other threads may have left something in transit. Its batches stay held by them,
    /// so it does not matter what the store has heard.
    static bool left_some() noexcept { return under_way.load(std::memory_order_relaxed) > 0; }
    static void forget_transits(batch_record& b) noexcept {
        for (entry* e = b.first_buffer; e; e = e->next) buffer_behind(e).set_in_transit(false);
    }

private:
    friend struct copy_places;

    TENURE_SHARED inline static constinit std::atomic<std::uint32_t> under_way{0};

    struct part {
        supply*                 in;
        std::vector<raw_handle> handles;
        std::vector<block>      blocks;
    };

    part& part_of(supply& s) {
        auto const at = std::find_if(parts_.begin(), parts_.end(), [&](part const& p) { return p.in == &s; });
        return at != parts_.end() ? *at : parts_.emplace_back(part{&s, {}, {}});
    }

    void tell(part& p) noexcept {
        std::size_t const n = std::min(p.handles.size(), p.blocks.size());
        if (!p.in->store.try_transfer({p.blocks.data(), n}, to_.id.load(std::memory_order_relaxed))) give_up(*p.in);
        for (raw_handle const h : p.handles) set_told(h);
    }

    static void set_told(raw_handle h) noexcept {
        extent const      x = extent_of(h);
        object_lock const guard(x);
        if (!is_alive(h, true)) return;
        if (buffer_record* const b = as_buffer(x)) b->set_in_transit(false);
    }

    void give_up(supply const& s) noexcept {
        set_untold(from_, s);
        set_untold(to_, s);
    }

    static void set_untold(batch_record& b, supply const& s) noexcept {
        std::scoped_lock const guard(b.lock);
        if (stored* const in = find_stored(b, s)) in->untold = true;
    }

    batch_record&     from_;
    batch_record&     to_;
    std::vector<part> parts_;
    bool              counted_ = false;  ///< among those under way
};

}  // namespace tenure::detail

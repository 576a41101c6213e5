// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include <tenure/detail/life/ending.hpp>
#include <tenure/detail/paging/residency.hpp>
#include <tenure/raise.hpp>
#include <tenure/snapshot.hpp>

namespace tenure::detail {

/// Keeps a registry within registry_options::memory_limit. Does nothing if there is no limit.

/// Returns how many bytes of slab memory batches have, without what is out.
inline std::size_t memory_in_use(registry_core& r) noexcept {
    std::size_t const held = r.own.slabs.usage().held;
    std::size_t const out  = space_of(r).relieved.load(std::memory_order_relaxed);
    return held - std::min(out, held);
}

struct eviction {
    batch_record*      batch;
    eviction_candidate what;
};

/// Returns the batches that may go out, or just do, in the order of the policy. They are not held, because threads
/// that hold one batch keep each other from moving it.
inline std::vector<eviction> evictions(registry_core& r) {
    std::vector<eviction> out;
    for_records([&](batch_record& b) {
        std::uint64_t const id = b.id.load(std::memory_order_acquire);
        if (id == 0 || b.registry.load(std::memory_order_relaxed) != &r) return;
        if (!b.evictable.load(std::memory_order_relaxed)) return;
        paging_state const  paging = b.paging.load(std::memory_order_acquire);
        std::uint64_t const held   = b.state.load(std::memory_order_acquire) &
                                   (batch_flags::holds | unless_over | batch_flags::checkpointed);
        if (paging == paging_state::out || held > (paging == paging_state::moving)) return;
        {
            std::scoped_lock const guard(b.lock);
            if (!is_empty(b)) return;
        }
        std::size_t const        bytes = static_cast<std::size_t>(figures_of(b).units) << unit_shift;
        eviction_candidate const what{
            {id}, bytes, b.entered_at.load(std::memory_order_relaxed), b.priority.load(std::memory_order_relaxed)};
        if (bytes > 0 && b.id.load(std::memory_order_acquire) == id) out.push_back({&b, what});
    });
    std::sort(out.begin(), out.end(),
              [&](eviction const& x, eviction const& y) { return space_of(r).options.eviction(x.what, y.what); });
    return out;
}

inline bool make_room_or_throw(registry_core& r, std::size_t bytes) {
    memory_limits const& limit = space_of(r).options.limit;
    auto const           fits = [&](std::size_t most) { return bytes <= most && memory_in_use(r) <= most - bytes; };
    if (fits(limit.high)) return true;
    if (bytes > limit.high) return false;  // too much, whatever goes out
    if (run_cache* const c = cache_of(r.own)) give_back_runs(r.own.slabs, *c);
    for (run_cache* c = r.own.caches.load(std::memory_order_acquire); c; c = c->next)
        give_back_returned(r.own.slabs, *c);
    if (fits(limit.high)) return true;
    std::size_t const enough = bytes <= limit.low ? limit.low : limit.high;
    // Batches come in, end and go out while this thread works through its list. A list that was overtaken says
    // nothing about what there is by now, so a new one is made.
    bool overtaken = true;
    for (int list = 0; list < 16 && overtaken && !fits(limit.high); ++list) {
        overtaken = false;
        for (eviction const& e : evictions(r)) {
            std::error_code const why = page_out_batch(*e.batch, e.what.id.value, false);
            // After any other error the batch stays in memory.
            overtaken |= !why || why == errc::batch_ended || why == errc::batch_in_use;
            if (fits(enough)) break;
        }
    }
    return fits(limit.high);
}

inline bool registry_paging::make_room(std::size_t bytes) noexcept {
    return run_or<std::bad_alloc>([&] { return make_room_or_throw(registry_, bytes); },
                                  [](auto const&) { return false; });
}

inline std::string registry_paging::largest_holders() const {
    registry_core& r = registry_;
    struct holder {
        std::size_t bytes = 0;
        std::string name;
    };
    std::array<holder, 3> most;
    for_records([&](batch_record& b) {
        if (b.id.load(std::memory_order_acquire) == 0 || b.registry.load(std::memory_order_relaxed) != &r) return;
        batch_usage const u    = usage_of(b);
        std::size_t const here = u.retained - std::min(u.paged_out, u.retained);
        if (here <= most.back().bytes) return;
        most.back() = {here, label_of(b)};
        std::sort(most.begin(), most.end(), [](auto const& x, auto const& y) { return x.bytes > y.bytes; });
    });
    std::string out = "; " + human_bytes(memory_in_use(r)) + " of slab memory in use, limit " +
                      human_bytes(space_of(r).options.limit.high);
    for (holder const& h : most)
        if (h.bytes) out += (&h == most.data() ? "; most of it: " : ", ") + h.name + " " + human_bytes(h.bytes);
    return out;
}

inline void registry_paging::come_back(batch_record& b, bool entered) noexcept { detail::come_back(b, entered); }

inline void registry_paging::note_leaving(batch_record& b, std::uint64_t id) noexcept {
    detail::note_leaving(b, id);
}

inline void registry_paging::drop_pages(batch_record& b) noexcept { forget_pages(space, b); }

inline void registry_paging::settle(batch_record& b) noexcept {
    if (b.paging.load(std::memory_order_acquire) == paging_state::in) return;
    claim_paging(b);
    set_paging(b, paging_state::in);
}

inline paging_info registry_paging::describe() const {
    scratch_file const* const file = space.opened();
    return {space.options.directory, space.out.load(std::memory_order_relaxed),
            file ? static_cast<std::size_t>(file->bytes_reserved()) : 0,
            space.written.load(std::memory_order_relaxed), space.failures.load(std::memory_order_relaxed)};
}

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include <tenure/detail/buffers/stored.hpp>
#include <tenure/detail/life/calls.hpp>
#include <tenure/detail/life/forking.hpp>
#include <tenure/snapshot.hpp>

namespace tenure::detail {

/// Inspects a registry.

inline void sort_ids(std::vector<batch_id>& all) {
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
}

/// Returns what a batch waits for if it has ended: the users of what it owns, and the batches directly below it.
inline std::vector<batch_id> waits_for(registry_core& r, batch_record& b, std::uint64_t id) {
    std::vector<batch_id> out;
    std::uint64_t const   s = b.state.load(std::memory_order_acquire);
    if (!same_batch(s, id) || status_of(s) != batch_status::ending) return out;
    for_records([&](batch_record const& c) {
        std::uint64_t const child = c.id.load(std::memory_order_acquire);
        if (child == 0 || c.registry.load(std::memory_order_relaxed) != &r) return;
        if (c.parent.load(std::memory_order_acquire) != &b) return;
        std::uint64_t const now = c.state.load(std::memory_order_acquire);
        if (same_batch(now, child) && !(now & batch_flags::done)) out.push_back({child});
    });
    if (r.uses) r.uses->add_users(b, id, out);
    sort_ids(out);
    return out;
}

/// Reads one batch as it is now. Returns false if it was over before it was read, or is another registry's.
inline bool look_at(batch_record& b, registry_core const& r, batch_info& out) {
    std::uint64_t const id    = b.id.load(std::memory_order_acquire);
    std::uint64_t const state = b.state.load(std::memory_order_acquire);
    if (id == 0 || !same_batch(state, id) || state & batch_flags::done) return false;
    if (b.registry.load(std::memory_order_acquire) != &r) return false;

    batch_record const* const parent = b.parent.load(std::memory_order_acquire);
    out.id                           = {id};
    out.parent                       = {parent ? parent->id.load(std::memory_order_acquire) : 0};
    out.name                         = name_of(b);
    out.status                       = status_of(b, id);
    out.guarded                      = b.guard.load(std::memory_order_acquire) != nullptr;
    out.in_background                = b.reclaim_pending.load(std::memory_order_acquire);
    out.age        = std::chrono::nanoseconds(coarse_now() - b.opened_ns.load(std::memory_order_acquire));
    out.where      = b.where.load(std::memory_order_acquire);
    out.usage      = usage_of(b);
    out.page_error = b.rest.page_error.load(std::memory_order_relaxed).code();
    out.shared_by  = members_of(b);
    return b.id.load(std::memory_order_acquire) == id;
}

inline registry_usage usage_of(registry_core& r) noexcept {
    depot::figures f     = r.own.slabs.usage();
    std::size_t    spare = 0;
    for (run_cache const* c = r.own.caches.load(std::memory_order_acquire); c; c = c->next)
        spare += (c->units.load(std::memory_order_relaxed) + c->returned_units.load(std::memory_order_relaxed))
                 << unit_shift;
    std::scoped_lock const guard(r.supplies_mutex);
    for (supply const* s = r.supplies; s; s = s->next) {
        depot::figures const more = s->slabs.usage();
        f.held += more.held;
        f.dirty += more.dirty;
        f.mapped += more.mapped;
    }
    return {f.held - std::min(spare, f.held), f.dirty + spare, f.mapped};
}

/// Returns what one batch has in its stores, newest store first, and adds it to the totals in `all`.
inline std::vector<store_info> stores_of(batch_record& b, std::vector<store_info>& all,
                                         std::vector<supply const*> const& supplies) {
    struct item {
        supply const* from;
        any_store     store;
        flow          live;
    };
    std::vector<item> items;
    for (std::size_t n = b.stores.load(std::memory_order_relaxed) ? 4 : 0; n > items.capacity();) {
        items.reserve(n);
        n = 0;
        std::scoped_lock const guard(b.lock);
        for (stored const* in = b.stores.load(std::memory_order_relaxed); in; in = in->next)
            if (++n <= items.capacity()) items.push_back({in->from, in->from->store, in->live()});
        if (n > items.capacity()) items.clear();
    }
    std::vector<store_info> out;
    for (item const& i : items) {
        if (i.live.buffers == 0) continue;
        out.push_back({.name = i.store.describe(), .buffers = i.live.buffers, .bytes = i.live.bytes});
        for (std::size_t k = 0; k < supplies.size(); ++k) {
            if (supplies[k] != i.from) continue;
            all[k].buffers += i.live.buffers;
            all[k].bytes += i.live.bytes;
        }
    }
    return out;
}

/// Returns the stores of a registry, without what batches have there. `supplies` tells which supply each entry is
/// of. Do not dereference these pointers: the supplies may be gone.
inline std::vector<store_info> stores_of(registry_core& r, std::vector<supply const*>& supplies) {
    std::vector<store_info> out;
    std::vector<any_store>  stores;
    auto const              look_at = [&](supply const& s) {
        unfreed::figures const left = s.refused.usage();
        supplies.push_back(&s);
        stores.push_back(s.store);
        out.push_back({.name          = {},
                                    .slabs         = s.slabs.usage().mapped,
                                    .unfreed       = left.blocks,
                                    .unfreed_bytes = left.bytes,
                                    .error         = left.why});
    };
    {
        std::scoped_lock const guard(r.supplies_mutex);
        look_at(r.own);
        for (supply const* s = r.supplies; s; s = s->next) look_at(*s);
    }
    for (std::size_t i = 0; i < out.size(); ++i) out[i].name = stores[i].describe();
    return out;
}

/// Asks stores for their names with no lock held.
inline snapshot census(registry_core& r) {
    snapshot                   s;
    std::vector<batch_info>    all;
    std::vector<supply const*> supplies;
    s.stores = stores_of(r, supplies);
    for_records([&](batch_record& b) {
        batch_info info;
        if (!look_at(b, r, info)) return;
        info.stores = stores_of(b, s.stores, supplies);
        if (r.uses) r.uses->add_users(b, info.id.value, info.waits_for);
        all.push_back(std::move(info));
    });
    s.memory = usage_of(r);
    if (r.pages) s.paging = r.pages->describe();
    s.foreign_ends     = r.foreign_ends.load(std::memory_order_relaxed);
    s.unordered_ends   = r.unordered_ends.load(std::memory_order_relaxed);
    s.failed_rollbacks = r.failed_rollbacks.load(std::memory_order_relaxed);
    if (r.background) s.background = r.background->describe();

    // A child whose parent ended meanwhile is shown at the top. The oldest comes first, so it is pushed last.
    std::sort(all.begin(), all.end(), [](batch_info const& x, batch_info const& y) {
        return x.age != y.age ? x.age < y.age : y.id < x.id;
    });
    using numbered = std::pair<std::uint64_t, std::size_t>;  // a batch, or a parent, and a place in `all`
    std::vector<numbered> ids, children;
    for (std::size_t i = 0; i < all.size(); ++i) ids.emplace_back(all[i].id.value, i);
    std::sort(ids.begin(), ids.end());
    for (std::size_t i = 0; i < all.size(); ++i) {
        auto const up = std::lower_bound(ids.begin(), ids.end(), numbered(all[i].parent.value, 0));
        if (up == ids.end() || up->first != all[i].parent.value) {
            children.emplace_back(0, i);
            continue;
        }
        children.emplace_back(up->first, i);
        batch_info& parent = all[up->second];
        if (parent.status == batch_status::ending) parent.waits_for.push_back(all[i].id);
    }
    std::sort(children.begin(), children.end());
    std::vector<std::size_t> todo;
    auto const               add = [&](std::uint64_t parent, std::size_t depth) {
        auto n = std::lower_bound(children.begin(), children.end(), numbered(parent, 0));
        for (; n != children.end() && n->first == parent; ++n) {
            all[n->second].depth = depth;
            todo.push_back(n->second);
        }
    };
    for (add(0, 0); !todo.empty();) {
        batch_info& b = s.batches.emplace_back(std::move(all[todo.back()]));
        todo.pop_back();
        sort_ids(b.waits_for);
        add(b.id.value, b.depth + 1);
    }
    return s;
}

}  // namespace tenure::detail

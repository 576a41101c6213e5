// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <source_location>
#include <utility>
#include <vector>

#include <tenure/detail/inspect/store_census.hpp>
#include <tenure/detail/life/calls.hpp>
#include <tenure/detail/life/forking.hpp>
#include <tenure/snapshot.hpp>

namespace tenure::detail {

/// Inspects a registry.

inline void sort_ids(std::vector<batch_id>& all) {
    if (all.empty()) return;
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
    out.page_error = b.page_error.load(std::memory_order_relaxed).code();
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
    s.foreign_ends   = r.foreign_ends.load(std::memory_order_relaxed);
    s.unordered_ends = r.unordered_ends.load(std::memory_order_relaxed);
    if (r.background) s.background = r.background->describe();

    // A child whose parent ended meanwhile is shown at the top. This uses sorted vectors instead of maps, and one
    // kind of sort, because every user's build includes this header.
    struct node {
        std::uint64_t            id, parent;
        std::chrono::nanoseconds age;
        std::size_t              index, depth;
    };
    using order             = bool (*)(node const&, node const&);
    constexpr order by_id   = [](node const& a, node const& b) { return a.id < b.id; };
    constexpr order by_tree = [](node const& a, node const& b) {
        if (a.parent != b.parent) return a.parent < b.parent;
        return a.age != b.age ? a.age < b.age : a.id > b.id;  // newest first, to be pushed onto a stack
    };
    std::vector<node> nodes;
    nodes.reserve(all.size());
    for (std::size_t i = 0; i < all.size(); ++i)
        nodes.push_back({all[i].id.value, all[i].parent.value, all[i].age, i, 0});
    std::sort(nodes.begin(), nodes.end(), by_id);
    for (node& n : nodes) {
        auto const parent = std::lower_bound(nodes.begin(), nodes.end(), node{n.parent, 0, {}, 0, 0}, by_id);
        if (parent == nodes.end() || parent->id != n.parent) n.parent = 0;
        else if (batch_info& up = all[parent->index]; up.status == batch_status::ending)
            up.waits_for.push_back({n.id});
    }
    std::sort(nodes.begin(), nodes.end(), by_tree);
    std::vector<node> todo;
    auto const        add = [&](std::uint64_t parent, std::size_t depth) {
        node const newest{~std::uint64_t{0}, parent, std::chrono::nanoseconds::min(), 0, 0};
        for (auto n = std::lower_bound(nodes.begin(), nodes.end(), newest, by_tree);
             n != nodes.end() && n->parent == parent; ++n)
            todo.push_back({n->id, parent, n->age, n->index, depth});
    };
    for (add(0, 0); !todo.empty();) {
        node const n = todo.back();
        todo.pop_back();
        all[n.index].depth = n.depth;
        sort_ids(all[n.index].waits_for);
        s.batches.push_back(std::move(all[n.index]));
        add(n.id, n.depth + 1);
    }
    return s;
}

}  // namespace tenure::detail

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

/// Opens, inspects and closes a registry.

/// Opens a registry. `memory` must be addressable. Throws std::bad_alloc, memory_full.
inline registry_core* open_registry(any_store memory, any_store buffers, paging_options paging,
                                    std::uint64_t decay_ns, std::source_location where) {
    if (!reserve_tables())
        raise(error(errc::memory_full, "open a registry: the generation table needs 16 GiB of address space"));
    be_ready_for_forks();
    std::uint64_t uid = 0;
    {
        std::scoped_lock const guard(process.mutex);
        uid = ++process.last_uid;
    }
    auto          core = std::make_unique<registry_core>(std::move(memory), std::move(paging), decay_ns, uid);
    batch_options named{.name = "root"};
    named.store = std::move(buffers);
    core->root  = open_batch(*core, nullptr, &named, false, where).record;
    std::scoped_lock const guard(process.mutex);
    core->next         = process.registries;
    process.registries = core.get();
    return core.release();
}

/// Adds to `out` the users of what an ended batch owns, without those that wait with it in a ring.
inline void add_users(registry_core& r, batch_record& b, std::uint64_t id, std::vector<batch_id>& out) {
    auto const ends = [&] {
        std::uint64_t const s = b.state.load(std::memory_order_acquire);
        return s & batch_flags::used && same_batch(s, id) && status_of(s) == batch_status::ending;
    };
    if (!ends()) return;
    std::scoped_lock const graph(r.uses.mutex);
    if (!ends()) return;
    r.uses.for_users(b, [&](batch_record const& u) { out.push_back({u.id.load(std::memory_order_relaxed)}); });
}

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
    add_users(r, b, id, out);
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

inline paging_info paging_of(registry_core const& r) {
    page_space const&         p    = r.pages;
    scratch_file const* const file = p.opened();
    return {p.options.directory, p.out.load(std::memory_order_relaxed),
            file ? static_cast<std::size_t>(file->bytes_reserved()) : 0, p.written.load(std::memory_order_relaxed),
            p.failures.load(std::memory_order_relaxed)};
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
        add_users(r, b, info.id.value, info.waits_for);
        all.push_back(std::move(info));
    });
    s.memory         = usage_of(r);
    s.paging         = paging_of(r);
    s.foreign_ends   = r.foreign_ends.load(std::memory_order_relaxed);
    s.unordered_ends = r.unordered_ends.load(std::memory_order_relaxed);
    s.background     = {r.background.batches(), r.background.bytes()};

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

/// Ends what the root owns, newest first, and what destructors make there meanwhile: for them the root is still
/// active. Nobody else uses the registry.
inline void end_objects_of_root(batch_record& root) noexcept {
    ancestor_is_current const above(root);
    auto const                any = [&] {
        bool entries = root.inbox || root.first_buffer || root.memberships;
        for_lanes(root, [&](lane const& l) { entries = entries || l.entries; });
        return entries;
    };
    while (any()) {
        for_lanes(root, [](lane& l) { close_window(l); });
        guard_all(root);
        run_inbox(root);
        for_lanes(root, [&](lane& l) {
            run_entries(root, l);
            l.remote.store(nullptr, std::memory_order_relaxed);  // these entries have just been run
        });
        run_buffers(root);
        if (root.memberships) leave_commons(root);
    }
}

/// Ends, at exit, what is left in the global registry. Other static objects may use the registry afterwards. Does
/// nothing if another thread that has used it still runs, because that thread may be using any of it.
TENURE_COLD inline void end_at_exit(registry_core& r) noexcept {
    if (process.threads.load(std::memory_order_acquire) > 0) return;
    r.background.stop();
    for (batch_record* b = r.loose; b;) {
        bool const alive = b != r.root && !(b->state.load(std::memory_order_acquire) & batch_flags::ended);
        if (alive) end_record(*b, b->id.load(std::memory_order_relaxed), true);
        b = alive ? r.loose : b->older;  // destructors may have opened or ended other batches
    }
    end_objects_of_root(*r.root);
    free_gathered(*r.root);
}

/// Frees everything, whatever holds it, and returns the memory. What another thread is just looking at is returned
/// as soon as that thread is through.
inline void close_registry(registry_core* r) noexcept {
    // First drop this thread's references to the registry: guards that others destroyed, and the current batch.
    thread_context& me = this_thread;
    for (batch_record *b = me.newest, *older; b; b = older) {
        older = b->older;
        if (b->registry.load(std::memory_order_relaxed) == r && b->closed_elsewhere.load(std::memory_order_acquire))
            close_those_elsewhere(*b);
    }
    auto const is_ours = [&](lane const* l) { return l->batch->registry.load(std::memory_order_relaxed) == r; };
    if (me.visiting && is_ours(me.current)) {
        me.visiting = false;
        me.current  = me.newest ? &me.newest->primary : nullptr;
    }
    for (batch_record* b = me.newest; b; b = b->older)
        if (b->previous.visited && is_ours(b->previous.where)) b->previous = {};

    // Holds no longer count, because nobody is inside. Batches that guards still refer to, or lanes held, close
    // first; then the rest, newest first, and so the root last.
    bool       any_abandoned = false;
    auto const close         = [&](batch_record& b) {
        if (b.abandoned) {  // nobody owns what is left of it
            any_abandoned = true;
            return b.id.store(0, std::memory_order_release);
        }
        b.state.fetch_or(batch_flags::ended, std::memory_order_acq_rel);
        if (&b != r->root) b.parent.store(r->root, std::memory_order_release);  // the batch above it may be gone
        if (me.root_lane && me.root_lane->batch == &b) {
            if (me.current == me.root_lane) me.current = nullptr;
            me.root_lane = nullptr;
        }
        release_memory(b);
        b.children = 0;  // the children's guards will find that their batches are over
        if (b.guard.load(std::memory_order_relaxed) == &this_thread) leave_chain(b);
        if (b.is_loose) leave_loose(b);
        if (b.state.fetch_or(batch_flags::done, std::memory_order_acq_rel) & batch_flags::released) recycle(&b);
    };
    for_records([&](batch_record& b) {
        if (!is_in_use(b, *r)) return;
        r->uses.forget(b);
        drop_deadline(b);  // a guard that outlives this has no deadline any more
    });
    r->uses.forget_objects();
    auto const close_others = [&](bool commons) {
        for_records([&](batch_record& b) {
            if (!is_in_use(b, *r) || b.is_loose || (is_common(b) && !commons)) return;
            if (b.state.load(std::memory_order_relaxed) & batch_flags::done) return;
            b.members.store(no_common, std::memory_order_relaxed);
            close(b);
        });
    };
    close_others(false);
    while (batch_record* const b = r->loose) {
        if (b == r->root) end_objects_of_root(*b);
        if (b == r->loose) close(*b);  // else a destructor has opened another batch
    }
    close_others(true);  // commons that are still held; all others ended with their last member
    if (any_abandoned) {
        r->own.slabs.outdate();
        for (supply* s = r->supplies; s; s = s->next) s->slabs.outdate();
    }
    {
        std::scoped_lock const guard(process.mutex);
        registry_core**        at = &process.registries;
        while (*at != r) at = &(*at)->next;
        *at = r->next;
        if (this_thread.cache_uid == r->own.uid) {
            this_thread.cache     = nullptr;
            this_thread.cache_uid = 0;
        }
    }
    let_depart(*r);
}

inline std::size_t trim(registry_core& r) noexcept {
    std::size_t const given = tidy_supplies(r);
    if (run_cache* const c = cache_of(r.own)) give_back_runs(r.own.slabs, *c);
    return given + r.own.slabs.trim(static_cast<std::size_t>(-1));
}

}  // namespace tenure::detail

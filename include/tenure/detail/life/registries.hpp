// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <source_location>
#include <utility>

#include <tenure/detail/base/owned_ptr.hpp>
#include <tenure/detail/life/calls.hpp>
#include <tenure/detail/life/forking.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Opens and closes registries.

/// Opens a registry. `memory` must be addressable. Throws std::bad_alloc, memory_full.
inline registry_core* open_registry(any_store memory, any_store buffers, paging_options paging,
                                    std::size_t background_limit, std::uint64_t decay_ns,
                                    std::source_location where) {
    if (!reserve_tables())
        raise(error(errc::memory_full, "open a registry: the generation table needs 16 GiB of address space"));
    be_ready_for_forks();
    std::uint64_t uid = 0;
    {
        std::scoped_lock const guard(process.mutex);
        uid = ++process.last_uid;
        process.leave_guards.store(&leave_guards, std::memory_order_release);
    }
    owned_ptr<registry_core> core(new registry_core(std::move(memory), decay_ns, uid, &reclaim));
    if (new_timing) core->timing = new_timing(*core);
    if (new_uses) core->uses = new_uses(*core);
    if (new_background) core->background = new_background(*core, background_limit);
    if (new_paging) core->pages = new_paging(*core, std::move(paging));
    else if (paging.limit.high != no_limit)
        refuse_without("tenure/paging.hpp", "open a registry with a memory_limit");
    batch_options named{.name = "root"};
    named.store = std::move(buffers);
    core->root  = open_batch(*core, nullptr, &named, false, where).record;
    std::scoped_lock const guard(process.mutex);
    core->next         = process.registries;
    process.registries = core.get();
    return core.release();
}

/// See registry::set_root_makes. Closes the windows that this thread has there.
inline void let_root_make(registry_core& r, root_makes how) noexcept {
    batch_record& root = *r.root;
    if (how == root_makes::allowed) {
        root.state.fetch_and(~batch_flags::refusing, std::memory_order_acq_rel);
        return;
    }
    root.state.fetch_or(batch_flags::refusing, std::memory_order_acq_rel);
    thread_context const& me = this_thread;
    for (lane* const l : {me.current, me.root_lane})
        if (l && l->batch == &root && l->thread.load(std::memory_order_relaxed) == &me) close_window(*l);
}

/// Ends what the root owns, newest first, and what destructors make there meanwhile: for them the root is still
/// active. Nobody else uses the registry.
inline void end_objects_of_root(batch_record& root) noexcept {
    ancestor_is_current const above(root);
    auto const                any = [&] {
        bool entries = any_in_locked_lists(root) || root.memberships;
        for_lanes(root, [&](lane const& l) { entries = entries || l.entries; });
        return entries;
    };
    while (any()) {
        for_lanes(root, [](lane& l) { close_window(l); });
        guard_all(root);
        run_all(root);
        for_lanes(root, [](lane& l) {
            l.remote.store(nullptr, std::memory_order_relaxed);  // these entries have just been run
        });
        if (root.memberships) front_of_sharing().leave_all(root);
    }
}

/// Ends, at exit, what is left in the global registry. Other static objects may use the registry afterwards. Does
/// nothing if another thread that has used it still runs, because that thread may be using any of it.
TENURE_COLD inline void end_at_exit(registry_core& r) noexcept {
    if (process.threads.load(std::memory_order_acquire) > 0) return;
    if (r.background) r.background->close();
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
        if (b->registry.load(std::memory_order_relaxed) == r && is_closed_elsewhere(*b)) close_those_elsewhere(*b);
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
        if (b.rest.abandoned) {  // nobody owns what is left of it
            any_abandoned = true;
            return b.id.store(0, std::memory_order_release);
        }
        b.state.fetch_or(batch_flags::ended, std::memory_order_acq_rel);
        unlist_child(b);
        if (&b != r->root) b.parent.store(r->root, std::memory_order_release);  // the batch above it may be gone
        if (me.root_lane && me.root_lane->batch == &b) {
            if (me.current == me.root_lane) me.current = nullptr;
            me.root_lane = nullptr;
        }
        release_memory(b);
        std::uint64_t gone = batch_flags::done;
        if (b.guard.load(std::memory_order_relaxed) == &this_thread) gone |= leave_ended(b);
        if (b.is_loose) leave_loose(b);
        if ((b.state.fetch_or(gone, std::memory_order_acq_rel) | gone) & batch_flags::released) recycle(&b);
    };
    for_records([&](batch_record& b) {
        if (!is_in_use(b, *r)) return;
        if (r->uses) r->uses->forget(b);
        forget_children(b);
        drop_deadline(b);  // a guard that outlives this has no deadline any more
    });
    if (r->uses) r->uses->forget_objects();
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
    r.own.slabs.stay_warm(0);
    std::size_t const given = tidy_supplies(r);
    if (run_cache* const c = cache_of(r.own)) give_back_runs(r.own.slabs, *c);
    return given + r.own.slabs.trim(static_cast<std::size_t>(-1));
}

}  // namespace tenure::detail

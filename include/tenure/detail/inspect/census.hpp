// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include <tenure/detail/buffers/stored.hpp>
#include <tenure/detail/inspect/batch_tree.hpp>
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

/// The registry's clock, read once for all the batches that one snapshot looks at.
class clock_reading {
public:
    explicit clock_reading(registry_core const& r) noexcept : registry_(r) {}

    std::uint64_t coarse = coarse_now();
    std::uint64_t timing() noexcept {
        if (timing_ == 0) timing_ = registry_.timing->now();
        return timing_;
    }

private:
    registry_core const& registry_;
    std::uint64_t        timing_ = 0;  ///< 0: not read yet
};

/// Returns the status of a batch of the registry in that state, as status_of() does, if the batch is still the same
/// afterwards.
inline batch_status status_seen(batch_record const& b, std::uint64_t state, std::uint64_t due,
                                clock_reading& now) noexcept {
    errc cause = state & batch_flags::over ? b.cause.load(std::memory_order_acquire) : errc{};
    if (due && !(state & batch_flags::closed) && now.timing() >= due) cause = errc::expired;
    if (cause == errc::expired) return batch_status::expired;
    return cause == errc::cancelled ? batch_status::cancelled : status_of(state);
}

/// Returns the state of the batch with that id, which the record has or had; `done` if it is over, or is another
/// registry's.
inline std::uint64_t state_in(batch_record const& b, std::uint64_t id, registry_core const& r) noexcept {
    std::uint64_t const state = b.state.load(std::memory_order_acquire);
    bool const          ours  = same_batch(state, id) && b.registry.load(std::memory_order_acquire) == &r;
    return ours ? state : batch_flags::done;
}

/// Reads how far a job is, and what it waited for here.
inline void look_at_job(batch_record& b, std::uint64_t now, batch_info& out) noexcept {
    auto const times = [](auto of) {
        auto const ns = [&](wait_for what) { return std::chrono::nanoseconds(of(static_cast<std::size_t>(what))); };
        return waiting_times{
            .memory = ns(wait_for::memory), .stores = ns(wait_for::store), .batches = ns(wait_for::batch)};
    };
    out.elapsed = out.age;
    out.waited  = times([&](std::size_t i) { return waited_so_far(b, i, now); });

    std::scoped_lock const guard(b.lock);
    if (!b.rest.progress) return;
    progress_meter const& m = *b.rest.progress;
    out.elapsed += std::chrono::nanoseconds(m.before());
    out.waited_before = times([&](std::size_t i) { return m.waited_before(i); });
    if (!m.has_said()) return;
    progress_info& p = out.progress;
    p                = {.done  = m.done(),
                        .total = m.total(),
                        .rate  = m.rate(),
                        .left  = m.left(),
                        .idle  = std::chrono::nanoseconds(now - std::min(m.last(), now))};
}

/// Reads one batch, which expires when `due` says, as it is now. Returns false if it was over before it was read.
inline bool look_at(batch_record& b, std::uint64_t id, registry_core const& r, std::uint64_t due,
                    clock_reading& now, batch_info& out) {
    if (b.id.load(std::memory_order_acquire) != id) return false;
    std::uint64_t const state = state_in(b, id, r);
    if (state & batch_flags::done) return false;

    std::uint64_t const opened = b.opened_ns.load(std::memory_order_acquire);
    out.id                     = {id};
    out.parent                 = {parent_of(b)};
    out.name                   = name_of(b);
    out.status                 = status_seen(b, state, due, now);
    out.guarded                = b.guard.load(std::memory_order_acquire) != nullptr;
    out.in_background          = b.reclaim_pending.load(std::memory_order_acquire);
    out.age                    = std::chrono::nanoseconds(now.coarse - std::min(opened, now.coarse));
    out.where                  = b.where.load(std::memory_order_acquire);
    out.usage                  = usage_of(b);
    look_at_job(b, now.coarse, out);
    out.page_error = b.rest.page_error.load(std::memory_order_relaxed).code();
    out.shared_by  = members_of(b);
    return b.id.load(std::memory_order_acquire) == id;
}

inline registry_usage usage_of(registry_core& r) noexcept {
    depot::figures f     = r.own.slabs.usage();
    std::size_t    spare = 0, described = r.own.slabs.table_bytes();
    for (run_cache const* c = r.own.caches.load(std::memory_order_acquire); c; c = c->next)
        spare += (c->units.load(std::memory_order_relaxed) + c->returned_units.load(std::memory_order_relaxed))
                 << unit_shift;
    std::scoped_lock const guard(r.supplies_mutex);
    for (supply const* s = r.supplies; s; s = s->next) {
        depot::figures const more = s->slabs.usage();
        f.held += more.held;
        f.dirty += more.dirty;
        described += s->slabs.table_bytes();
        f.mapped += more.mapped;
    }
    return {f.held - std::min(spare, f.held), f.dirty + spare, f.mapped, described};
}

/// The stores of a registry. Do not dereference `from`: the supplies may be gone.
struct stores_seen {
    struct one {
        supply const* from;
        any_store     store;
        std::size_t   at;  ///< in snapshot::stores
    };

    /// Returns the entry of a supply, or null.
    one const* find(supply const* s) const noexcept {
        auto const before = [](one const& x, supply const* y) { return std::less<>{}(x.from, y); };
        auto const at     = std::lower_bound(sorted.begin(), sorted.end(), s, before);
        return at != sorted.end() && at->from == s ? &*at : nullptr;
    }

    std::vector<one> sorted;  ///< by `from`
};

/// Returns what one batch has in its stores, newest store first, and adds it to the totals in `all`.
inline std::vector<store_info> stores_of(batch_record& b, std::vector<store_info>& all, stores_seen const& seen) {
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
        stores_seen::one const* const known = seen.find(i.from);
        bool const                    same  = known && known->store == i.store;
        out.push_back({.name    = same ? all[known->at].name : i.store.describe(),
                       .buffers = i.live.buffers,
                       .bytes   = i.live.bytes});
        if (!known) continue;
        all[known->at].buffers += i.live.buffers;
        all[known->at].bytes += i.live.bytes;
    }
    return out;
}

/// Returns the stores of a registry, without what batches have there.
inline std::vector<store_info> stores_of(registry_core& r, stores_seen& seen) {
    std::vector<store_info> out;
    auto const              look_at = [&](supply const& s) {
        unfreed::figures const left = s.refused.usage();
        seen.sorted.push_back({&s, s.store, out.size()});
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
    for (stores_seen::one const& o : seen.sorted) out[o.at].name = o.store.describe();
    std::sort(seen.sorted.begin(), seen.sorted.end(),
              [](auto const& x, auto const& y) { return std::less<>{}(x.from, y.from); });
    return out;
}

/// Returns what there is of a registry now: little of each batch, so that they are in order before all of it is
/// read.
inline std::vector<tree_node> nodes_of(registry_core const& r) {
    std::vector<tree_node> all;
    for_records([&](batch_record& b) {
        std::uint64_t const id = b.id.load(std::memory_order_acquire);
        if (id == 0 || state_in(b, id, r) & batch_flags::done) return;
        tree_node const seen{id, parent_of(b), b.opened_ns.load(std::memory_order_acquire), &b, 0};
        if (b.id.load(std::memory_order_acquire) == id) all.push_back(seen);
    });
    return all;
}

/// As nodes_of(), of a batch and all below it. Holds none of them: calls that must be alone in a batch go on.
inline std::vector<tree_node> nodes_below(registry_core const& r, std::uint64_t top) {
    constexpr std::size_t  outside = static_cast<std::size_t>(-1);
    std::vector<tree_node> all;
    std::size_t            top_depth = outside;
    batch_tree(nodes_of(r)).for_each([&](tree_node const& n, std::size_t depth, bool) {
        if (n.id == top) top_depth = depth;
        else if (depth <= top_depth) top_depth = outside;
        if (top_depth != outside) all.push_back(n);
    });
    return all;
}

/// Returns what is used by a batch and all below it.
inline batch_usage usage_below(registry_core const& r, std::uint64_t top) {
    batch_usage sum;
    for (tree_node const& n : nodes_below(r, top)) {
        batch_usage const more = usage_of(*n.record);
        if (n.record->id.load(std::memory_order_acquire) != n.id) continue;
        for (auto const part :
             {&batch_usage::objects, &batch_usage::bytes, &batch_usage::retained, &batch_usage::peak,
              &batch_usage::buffers, &batch_usage::buffer_bytes, &batch_usage::paged_out})
            sum.*part += more.*part;
    }
    return sum;
}

/// Reads the batches in the order of a tree. Returns those read, with the parents that they have now, if that is
/// not their order any more: some have got another parent, or have outlived theirs. Returns nothing if it is.
inline std::vector<tree_node> read_batches(registry_core& r, batch_tree tree, stores_seen const& seen,
                                           snapshot& out) {
    clock_reading              now(r);
    std::vector<std::uint64_t> dues;  // of the batch at hand and those above it, by depth
    bool                       same = true;
    out.batches.reserve(tree.size());
    tree.for_each([&](tree_node& n, std::size_t depth, bool has_children) {
        n.place          = out.batches.size();
        batch_info& info = out.batches.emplace_back();
        dues.resize(depth);
        dues.push_back(depth ? earlier(dues.back(), due_set(*n.record)) : due_seen(*n.record));
        if (!look_at(*n.record, n.id, r, dues.back(), now, info)) {
            out.batches.pop_back();
            n.record = nullptr;
            same     = same && !has_children;
            return;
        }
        info.stores = stores_of(*n.record, out.stores, seen);
        if (r.uses) r.uses->add_users(*n.record, n.id, info.waits_for);
        info.depth = depth;
        same       = same && info.parent.value == n.parent;
        n.parent   = info.parent.value;
    });
    std::vector<tree_node> now_known;
    if (same) return now_known;
    tree.for_each([&](tree_node const& n, std::size_t, bool) {
        if (n.record) now_known.push_back(n);
    });
    return now_known;
}

/// Brings batches, whose nodes say where they are, in the order of a tree.
inline void put_in_order(std::vector<batch_info>& batches, std::vector<tree_node> nodes) {
    std::vector<batch_info> in_order;
    batch_tree(std::move(nodes)).for_each([&](tree_node const& n, std::size_t depth, bool) {
        in_order.emplace_back(std::move(batches[n.place])).depth = depth;
    });
    batches = std::move(in_order);
}

/// Adds to what each ended batch waits for those directly below it.
inline void add_children(std::vector<batch_info>& batches) {
    std::vector<batch_info*> above;
    for (batch_info& b : batches) {
        above.resize(b.depth);
        if (b.depth && above.back()->status == batch_status::ending) above.back()->waits_for.push_back(b.id);
        above.push_back(&b);
    }
    for (batch_info& b : batches) sort_ids(b.waits_for);
}

/// Adds what batches waited to what those above them did.
inline void add_waits(std::vector<batch_info>& batches) {
    std::vector<waiting_times> below;  // by depth: the sums of those that were passed and whose parent was not yet
    auto const                 add = [](waiting_times& to, waiting_times const& more) {
        to.memory += more.memory;
        to.stores += more.stores;
        to.batches += more.batches;
    };
    for (auto b = batches.rbegin(); b != batches.rend(); ++b) {
        if (below.size() < b->depth + 2) below.resize(b->depth + 2);
        add(b->waited, std::exchange(below[b->depth + 1], {}));
        add(below[b->depth], b->waited);
    }
}

/// Returns a snapshot with these batches. Asks stores for their names with no lock held.
inline snapshot census(registry_core& r, std::vector<tree_node> nodes) {
    snapshot    s;
    stores_seen seen;
    s.stores                       = stores_of(r, seen);
    std::vector<tree_node> changed = read_batches(r, batch_tree(std::move(nodes)), seen, s);
    if (!changed.empty()) put_in_order(s.batches, std::move(changed));
    auto const ends = [](batch_info const& b) { return b.status == batch_status::ending; };
    if (std::any_of(s.batches.begin(), s.batches.end(), ends)) add_children(s.batches);
    add_waits(s.batches);
    s.memory = usage_of(r);
    if (r.pages) s.paging = r.pages->describe();
    s.foreign_ends     = r.foreign_ends.load(std::memory_order_relaxed);
    s.unordered_ends   = r.unordered_ends.load(std::memory_order_relaxed);
    s.failed_rollbacks = r.failed_rollbacks.load(std::memory_order_relaxed);
    if (r.background) s.background = r.background->describe();
    return s;
}

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <source_location>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenure/batch.hpp>
#include <tenure/detail/base/config.hpp>
#include <tenure/detail/checkpoints/rolling_back.hpp>
#include <tenure/detail/inspect/census.hpp>
#include <tenure/detail/life/owners.hpp>
#include <tenure/detail/uses/pinning.hpp>
#include <tenure/error.hpp>
#include <tenure/handle.hpp>
#include <tenure/lane.hpp>
#include <tenure/snapshot.hpp>
#include <tenure/store/heap.hpp>

namespace tenure {

namespace detail {
lane& current_lane();
}

struct registry_options {
    /// Where its batches' objects and buffers live, unless they name another store. None: a heap_store. One that is
    /// not addressable takes the buffers only.
    any_store store{};

    /// Slab memory that its batches may have in use, in the registry's own store. To stay below, idle batches whose
    /// residency says so go out, in the order of `eviction`; where none can, make throws memory_full.
    memory_limits       memory_limit{};
    any_eviction_policy eviction = least_recently_entered{};

    /// A directory for the file that batches go out to, which has no name there and is opened by the first. Empty:
    /// that of the environment's TMPDIR, else /var/tmp.
    std::string  page_file{};
    paged_access access = paged_access::brings_back;

    /// For timeouts, in nanoseconds; none: the steady clock. It never goes back. Any thread.
    std::uint64_t (*clock)() noexcept = nullptr;

    /// Free memory that stays free this long goes back to the system, a few MiB at a time, as batches come and go.
    std::chrono::nanoseconds decay = std::chrono::seconds(5);

    /// Memory of ended batches that may wait for their destructors to be run in the background, see reclamation;
    /// one batch may have more. An end that would pass it does its own at once, and so before those that wait.
    std::size_t background_limit = std::size_t{256} << 20;

    /// Called by the destructor with what leak_report() says, unless that is empty.
    std::function<void(std::string const&)> on_leak = [](std::string const& report) {
        std::fputs(report.c_str(), stderr);
    };
};

/// Owns a tree of batches and all their memory. Thread-safe, but for construction and destruction. Most programs
/// need only registry::global().
class registry {
public:
    /// Throws std::bad_alloc, memory_full where the process may not have 16 GiB of address space.
    explicit registry(registry_options options = {});

    /// Drains, reports what detached and manual batches still hold, then frees everything. Nobody may be inside.
    ~registry();

    registry(registry const&)            = delete;
    registry& operator=(registry const&) = delete;

    /// Opened by the first use, and never destroyed: static objects may use it in their destructors, and so may
    /// threads that outlive main. At exit, where the destructor of a static object made by that first use would
    /// run, it drains, reports what nobody ended and ends that, and what its root owns; but if another thread that
    /// has used it still runs, it ends nothing. What is made later is freed by the end of its batch, or never.
    TENURE_SHARED static registry& global();

    /// A batch without a guard, active until end_batch(id) or the end of its parent. Throws batch_ended,
    /// no_such_batch.
    batch_id new_batch(batch_options const& options = {}, batch_id parent = {},
                       std::source_location where = std::source_location::current());

    batch_id root() const noexcept { return {core_->root->id.load(std::memory_order_relaxed)}; }

    /// What the free functions act on in this thread; the root where nothing else is. Another registry's batch
    /// counts.
    static batch_id current_batch() noexcept;

    /// Makes a batch current on this thread and returns what was, which may be another registry's and is put back
    /// by the same call. The batch cannot be freed before the thread leaves it by another call. Throws batch_ended,
    /// no_such_batch.
    batch_id set_current_batch(batch_id id);

    /// As set_current_batch, for who restores what was current where nothing may be thrown: what is over by then is
    /// an error_code, and the current batch stays.
    result<batch_id> try_set_current_batch(batch_id id) {
        return detail::as_result([&] { return set_current_batch(id); });
    }

    /// The closing brace, from any thread. No-op if it is over. Throws no_such_batch. A guard of another thread is
    /// asked to stop: its make fails from then on, in scopes below it, too, and the batch is `ending` until that
    /// guard closes. That costs a pass over the batches of the process.
    void end_batch(batch_id id) { end(id, false); }

    /// As batch_scope::cancel; a batch without a guard goes as soon as no thread is inside, whatever its cleanup.
    /// No-op if it is over. Throws no_such_batch, not_owner: the root.
    void cancel(batch_id id);

    /// As batch_scope::stop_token; of what is over, one that has been asked to stop. Throws no_such_batch.
    std::stop_token stop_token(batch_id id) const;

    /// Expires the batches whose time is up. Returns how long it is till the next, no_timeout if there is none. For
    /// event loops that a supervisor does not fit; any thread. Cost: a batch at a time, as cancel().
    std::chrono::nanoseconds expire_overdue() noexcept { return detail::expire_overdue(*core_); }

    /// As end_batch, and tells what it did: exact where no other thread is at the batch. What stores could not free
    /// is in the snapshot only.
    batch_report end_with_report(batch_id id);

    /// As end_batch, and frees what cleanup::manual retained.
    void destroy_batch(batch_id id) { end(id, true); }

    /// Any thread. Throws stale_handle, batch_ended, no_such_batch, not_owner (another registry's), limit_exceeded,
    /// memory_full, wrong_thread (a large object with a destructor, while another thread is inside its batch).
    template <detail::owned H>
    H transfer_ownership(H h, batch_id to) {
        auto const why = detail::transfer_to(*core_, detail::handle_access::raw(h), to.value);
        if (why) detail::throw_failure(why, "transfer ownership ");
        return h;
    }
    template <detail::owned H>
    result<H> try_transfer_ownership(H h, batch_id to) {
        auto const why = detail::transfer_to(*core_, detail::handle_access::raw(h), to.value);
        if (why) return make_error_code(why.code);
        return h;
    }

    /// All of them, one by one; returns what it was given. Throws stale_handle before any is moved if one is stale;
    /// what else it throws leaves those before in their new batch.
    template <detail::handle_range R>
    R&& transfer_ownership(R&& handles, batch_id to) {
        for (auto const& h : handles)
            if (!h.alive()) detail::throw_stale(detail::handle_access::raw(h));
        for (auto const& h : handles) transfer_ownership(h, to);
        return std::forward<R>(handles);
    }
    template <detail::handle_range R>
    result<void> try_transfer_ownership(R&& handles, batch_id to) {
        for (auto const& h : handles)
            if (!h.alive()) return make_error_code(errc::stale_handle);
        for (auto const& h : handles)
            if (auto const moved = try_transfer_ownership(h, to); !moved) return moved.error();
        return {};
    }

    /// The object belongs to that batch, too, and is freed when the last of all that have a share ends or lets it
    /// go; its owner so far has one. Any thread. No-op if it has one already. Throws as transfer_ownership; and
    /// stale_handle, batch_ended: the last owner is just letting it go. Cost, but for the first time: some 50 ns,
    /// whatever the object's size. See docs/sharing.md.
    template <detail::owned H>
    H share(H h, batch_id with) {
        auto const why = detail::share_with(*core_, detail::handle_access::raw(h), with.value);
        if (why) detail::throw_failure(why, "share ");
        return h;
    }
    template <detail::owned H>
    result<H> try_share(H h, batch_id with) {
        auto const why = detail::share_with(*core_, detail::handle_access::raw(h), with.value);
        if (why) return make_error_code(why.code);
        return h;
    }

    /// As share() with each of them; if one fails, none of them has got a share.
    template <detail::owned H, detail::id_range R>
    H broadcast(H h, R const& with) {
        auto const why = detail::broadcast_to(*core_, detail::handle_access::raw(h), with);
        if (why) detail::throw_failure(why, "broadcast ");
        return h;
    }

    /// That batch lets it go: of what is shared, its share; what it owns alone is freed. Any thread. Throws
    /// stale_handle, not_owner, batch_ended, no_such_batch.
    template <detail::owned H>
    void unshare(H h, batch_id with) {
        auto const why = detail::unshare_with(*core_, detail::handle_access::raw(h), with.value);
        if (why) detail::throw_failure(why, "unshare ");
    }

    /// Frees one object now, whoever owns it; any thread. Throws stale_handle, object_pinned, batch_ended,
    /// not_owner (another registry's).
    template <detail::owned H>
    void free(H h) {
        auto const why = detail::free_one(*core_, detail::handle_access::raw(h));
        if (why) detail::throw_failure(why, "free ");
    }
    template <detail::owned H>
    result<void> try_free(H h) {
        auto const why = detail::free_one(*core_, detail::handle_access::raw(h));
        if (why) return make_error_code(why.code);
        return {};
    }

    /// Frees all; throws stale_handle or object_pinned before any is freed if one is stale or pinned. One that is
    /// named twice is freed once.
    template <detail::handle_range R>
    void free(R const& handles) {
        for (auto const& h : handles) {
            detail::raw_handle const raw = detail::handle_access::raw(h);
            if (!h.alive()) detail::throw_stale(raw);
            if (detail::is_pinned(*core_, detail::resolve(raw)))
                detail::throw_failure({errc::object_pinned}, "free ");
        }
        for (auto const& h : handles)
            if (h.alive()) free(h);
    }

    /// Writes the memory of a batch to the page file and gives it back to the system: a whole batch, at the same
    /// addresses, without what others have a share in. Whoever enters or touches it has it back, page by page; what
    /// did not change since it last came is not written again. Throws batch_in_use: a thread is inside, batches
    /// below hold it, or something of it is pinned or borrowed; not_pageable, batch_ended, no_such_batch;
    /// store_full, mappings_full and what else the system says of it: then it stays in memory, whole. Other batches
    /// go on meanwhile; who enters this one waits.
    ///
    /// Cost: that of writing the bytes, and a few system calls for each run that is not a neighbour's.
    void page_out(batch_id id);

    /// Reads in what is out, now rather than when it is touched. Throws batch_ended, no_such_batch, and
    /// std::errc::io_error: it could not all be read.
    void page_in(batch_id id);

    /// From now on what the batch has can be brought back to what it is: docs/checkpoints.md. Checkpoints nest.
    /// While one is open, what was there is neither freed, given away nor moved (not_restorable), and the batch
    /// stays in memory.
    ///
    /// Throws not_restorable, naming it: an object whose destructor does more than its memory needs (also what was
    /// adopted or deferred), a buffer in a store that cannot copy; batch_in_use: another thread is inside, or holds
    /// a batch below it, or it is the root; batch_ended, no_such_batch, memory_full, what a store says. Then there
    /// is none more. Cost: that of making the batch's slabs read-only, a look at each object with a destructor, a
    /// copy of each buffer; later some 5 us for each page that is written to for the first time.
    void checkpoint(batch_id id);

    /// The batch is as it was at its newest checkpoint, which is over. Objects made or received since are freed,
    /// newest first; those given away since stay with their owners. A store that cannot bring a buffer back throws
    /// what it says, and the checkpoint is still open. Throws no_checkpoint, batch_in_use, batch_ended,
    /// no_such_batch. Cost: in proportion to what changed.
    void rollback(batch_id id);

    /// The newest checkpoint is over, and changes since then are those of the checkpoint before it, if there is
    /// one. Throws as rollback, but for what stores say.
    void commit(batch_id id);

    /// As batch_scope::enter. Throws no_such_batch, too.
    [[nodiscard]] entered enter(batch_id id);

    /// `done` for whatever is over. Throws no_such_batch.
    batch_status status(batch_id id) const;

    /// Whom a batch that is `ending` waits for: the batches that use what it owns (tenure::pin, borrow), and those
    /// below it. Of batches that wait for each other in a ring, once they are known to: those outside of it. Empty
    /// for any other. Throws no_such_batch. Cost: a look at every batch of the process.
    std::vector<batch_id> waits_for(batch_id id) const;

    /// As tenure::borrow, for batch `id`, from any thread. Throws no_such_batch, too.
    template <detail::owned H>
    H borrow(batch_id id, H h, std::source_location where = std::source_location::current()) {
        auto const why = detail::borrow_for(*core_, id.value, detail::handle_access::raw(h), where);
        if (why) detail::throw_failure(why, "borrow ");
        return h;
    }
    template <detail::owned H>
    result<H> try_borrow(batch_id id, H h, std::source_location where = std::source_location::current()) {
        auto const why = detail::borrow_for(*core_, id.value, detail::handle_access::raw(h), where);
        if (why) return make_error_code(why.code);
        return h;
    }

    /// Throws no_such_batch; zero for what is over.
    batch_usage usage(batch_id id) const;

    /// Returns once no batch waits for its destructors to be run in the background (reclamation::background). Any
    /// thread; within such a destructor, at once.
    void drain() const noexcept {
        if (detail::this_thread.reclaiming) return;
        detail::run_left_over(*core_);
        core_->background.drain();
    }

    registry_usage usage() const;

    /// The live batches at this moment, with figures that are exact for batches at rest. Takes no lock that a make,
    /// open or end would wait for. Cost: a look at every batch of the process.
    tenure::snapshot snapshot() const;

    /// What batches without a guard hold; empty where there are none.
    std::string leak_report() const;

    /// Gives free memory back to the system now, whole 2 MiB ranges of what this thread and the registry keep for
    /// later. Returns the bytes given.
    std::size_t trim() noexcept;

private:
    friend class batch_scope;
    friend class supervisor;
    friend detail::lane& detail::current_lane();

    TENURE_SHARED static registry& open_global();
    void                           tell_leaks() const noexcept;
    void                           watch_deadlines(std::shared_ptr<detail::deadline_watch> const& watch);
    detail::lane&                  root_lane() { return *detail::lane_of_root(*core_); }
    detail::found                  find(batch_id id, char const* call) const;
    detail::found                  find_to_end(batch_id id, char const* call) const;
    void                           end(batch_id id, bool destroy);

    detail::batch_record& live(batch_id id, char const* call) const;

    detail::registry_core* core_;
    registry_options       options_;
};

}  // namespace tenure

#include <tenure/impl/registry.hpp>
#include <tenure/result.hpp>

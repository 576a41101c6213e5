// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenure/batch.hpp>
#include <tenure/detail/base/clocks.hpp>
#include <tenure/detail/base/config.hpp>
#include <tenure/detail/life/public_calls.hpp>
#include <tenure/error.hpp>
#include <tenure/eviction.hpp>
#include <tenure/handle.hpp>
#include <tenure/lane.hpp>
#include <tenure/result.hpp>

namespace tenure {

class registry;

namespace detail {

struct batch_record;
struct found;
struct registry_core;

registry_core& core_of(registry& r) noexcept;

/// Gives back what a registry has free, and has idle batches go out for what is missing then.
TENURE_DECL void make_room(registry& of, std::size_t bytes) noexcept;
struct global_registry;

/// A std::stop_token, or what is like it. (<stop_token> would cost every user's build more than this.)
template <class T>
concept stop_request = requires(T const& t) {
    { t.stop_requested() } -> std::convertible_to<bool>;
};

}  // namespace detail

struct registry_options {
    /// The store of the batches' objects and buffers, unless a batch names another. Empty: a heap_store. A store
    /// that is not addressable takes the buffers only.
    any_store store{};

    /// The slab memory that batches may have in use in the registry's own store. To stay below, idle batches whose
    /// residency allows it go out, in the order of `eviction`; if none can, make throws memory_full.
    memory_limits       memory_limit{};
    any_eviction_policy eviction = least_recently_entered{};

    /// The directory of the page file, which has no name there and is opened by the first page-out. Empty: the
    /// environment's TMPDIR, else /var/tmp.
    std::string  page_file{};
    paged_access access = paged_access::brings_back;

    /// The clock for timeouts, in nanoseconds. Null: the steady clock. It must never go back, and any thread may
    /// call it.
    std::uint64_t (*clock)() noexcept = nullptr;

    /// Free memory that stays free this long goes back to the system, a few MiB at a time, as batches come and go.
    std::chrono::nanoseconds decay = std::chrono::seconds(5);

    /// Bytes of memory that the registry makes ready from the start, as registry::warm() does, but on a thread of
    /// its own. What the system refuses stays cold. The destructor does not wait for it, drain() does. Needs
    /// <tenure/background.hpp>.
    std::size_t warm = 0;

    /// Bytes of ended batches that may wait for destructors in the background, see reclamation; one batch may have
    /// more. An end that would pass the limit runs its destructors at once, and so before those that wait.
    std::size_t background_limit = std::size_t{256} << 20;

    /// Whether the root takes what is made where no batch is current, as after a mistake: see
    /// registry::set_root_makes.
    tenure::root_makes root_makes = tenure::root_makes::allowed;

    /// Called with leak_report(), unless that is empty, by the destructor, and at exit for the global registry.
    /// Should not throw: nobody could catch it, so the report then goes to standard error.
    std::function<void(std::string const&)> on_leak = [](std::string const& report) {
        std::fputs(report.c_str(), stderr);
    };
};

/// Owns a tree of batches and all their memory. Thread-safe, except construction and destruction. Most programs
/// need only registry::global().
class registry {
public:
    /// Opens a registry. Throws std::bad_alloc, and memory_full if the process may not have 16 GiB of address
    /// space, or registry_options::memory_limit has no room for what is to be warm.
    explicit registry(registry_options options = {});

    /// Drains, as drain(), reports what detached and manual batches still hold, then frees everything. No thread
    /// may be inside.
    ~registry();

    registry(registry const&)            = delete;
    registry& operator=(registry const&) = delete;

    /// Returns the global registry, which the first use opens. It is never destroyed: destructors of static
    /// objects may use it, and so may threads that outlive main. At exit, where the destructor of a static object
    /// made by that first use would run, it drains, reports the batches that nobody ended, and ends them and what
    /// its root owns; but if another thread that has used it still runs, it ends nothing. What is made later is
    /// freed by the end of its batch, or never.
    static registry& global();

    /// Opens a batch without a guard below `parent`, or below the root. It is active until end_batch(id) or the
    /// end of its parent. Throws std::bad_alloc, batch_ended, no_such_batch; batch_in_use for more than 8 million
    /// directly below one batch other than the root.
    batch_id new_batch(batch_options const& options = {}, batch_id parent = {},
                       std::source_location where = std::source_location::current());

    batch_id root() const noexcept;

    /// Refuses makes in the root, or allows them again: objects, buffers, adopt(), defer() and resource() throw
    /// root_refused, for a destructor too that runs at the end of a batch directly below the root. What is kept
    /// there or transferred to it is welcome, and what is there stays. For registry::global(), before other threads
    /// make something in its root: what these have at hand, up to 64 KiB, they use as before. Any thread.
    void set_root_makes(root_makes how) noexcept;

    /// Returns the batch above; none for the root, and for a batch that is done. Any thread. Throws no_such_batch.
    batch_id parent(batch_id id) const;

    /// Returns whether one batch is above another, directly or not; false if the one below is done. Any thread.
    /// Throws no_such_batch for either. Cost: some 10 ns for each batch between them.
    bool is_ancestor(batch_id above, batch_id below) const;

    /// Returns the batch on which the free functions act in this thread, of whichever registry; the root of
    /// registry::global() if there is none. Null where a bound function runs after the end of its batch.
    static batch_id current_batch() noexcept;

    /// Makes a batch current on this thread and returns the one that was, which may be another registry's and is
    /// made current again by the same call. The batch cannot be freed before the thread leaves it by another call.
    /// Throws std::bad_alloc, batch_ended, no_such_batch.
    batch_id set_current_batch(batch_id id);

    /// As set_current_batch(), but returns the error and leaves the current batch: for code that restores what was
    /// current and may not throw.
    result<batch_id> try_set_current_batch(batch_id id);

    /// Ends a batch, as its closing brace would, from any thread. Does nothing if it is over. A guard of another
    /// thread is asked to stop: make fails from then on, in scopes below it too, and the batch is `ending` until
    /// that guard closes. Throws no_such_batch, and not_owner for the root or the id that stands for the owners of
    /// a shared object. Cost: in proportion to what is below the batch, however many others there are; a
    /// microsecond or two more for each guard of another thread.
    void end_batch(batch_id id) { end(id, false); }

    /// As batch_scope::cancel. A batch without a guard goes as soon as no thread is inside, whatever its cleanup.
    /// Does nothing if it is over. Throws as end_batch().
    template <class Feature = detail::timing_calls>
    void cancel(batch_id id) {
        detail::require_timing<Feature>();
        Feature::cancel(*this, id);
    }

    /// Returns a std::stop_token, as batch_scope::stop_token; of a batch that is over, one that has been asked to
    /// stop. Throws no_such_batch, too.
    template <class Feature = detail::timing_calls>
    auto stop_token(batch_id id) const {
        detail::require_timing<Feature>();
        return Feature::stop_token(*core_, id);
    }

    /// Expires the batches whose time is up. Returns the time until the next deadline, or no_timeout if there is
    /// none. For event loops that a supervisor does not fit. Any thread. Cost: that of cancel() for each of these
    /// batches.
    template <class Feature = detail::timing_calls>
    std::chrono::nanoseconds expire_overdue() noexcept {
        detail::require_timing<Feature>();
        return Feature::expire_overdue(*core_);
    }

    /// As end_batch(), and returns what the end did: exact if no other thread uses the batch. Only the snapshot
    /// tells what stores could not free.
    batch_report end_with_report(batch_id id);

    /// As end_batch(), and frees what cleanup::manual retained.
    void destroy_batch(batch_id id) { end(id, true); }

    /// As batch_scope::clear, for a batch of any kind, from any thread that is alone in it. Throws no_such_batch,
    /// too, and not_owner for the root.
    template <class Feature = detail::whole_batch_calls>
    void clear(batch_id id) {
        detail::require_whole_batch<Feature>();
        if (auto const why = Feature::clear(*core_, id.value)) detail::throw_failure(why, "clear batch ");
    }
    template <class Feature = detail::whole_batch_calls>
    result<void> try_clear(batch_id id) {
        detail::require_whole_batch<Feature>();
        if (auto const why = Feature::clear(*core_, id.value)) return make_error_code(why.code);
        return {};
    }

    /// Gives all that batch `from` owns to batch `to`, which must be of this registry, as batch_scope::keep_all
    /// gives it to the parent; from any thread that is alone in `from`. Throws no_such_batch, too, and not_owner if
    /// `from` is the root.
    template <class Feature = detail::whole_batch_calls>
    void transfer_all(batch_id from, batch_id to) {
        detail::require_whole_batch<Feature>();
        if (auto const why = Feature::give_all(*core_, from.value, to.value))
            detail::throw_failure(why, "transfer all of batch ");
    }
    template <class Feature = detail::whole_batch_calls>
    result<void> try_transfer_all(batch_id from, batch_id to) {
        detail::require_whole_batch<Feature>();
        if (auto const why = Feature::give_all(*core_, from.value, to.value)) return make_error_code(why.code);
        return {};
    }

    /// As batch_scope::set_name, for a batch of any kind. Any thread, as the next four. Throws no_such_batch, too,
    /// and not_owner for the id that stands for the owners of a shared object.
    template <class Feature = detail::change_batch_calls>
    void set_name(batch_id id, std::string_view name) {
        detail::require_changes<Feature>();
        if (auto const why = Feature::set_name({*core_, id}, name))
            detail::throw_failure(why, "set the name of batch ");
    }
    template <class Feature = detail::change_batch_calls>
    result<void> try_set_name(batch_id id, std::string_view name) {
        detail::require_changes<Feature>();
        if (auto const why = Feature::set_name({*core_, id}, name)) return make_error_code(why.code);
        return {};
    }

    /// As batch_scope::progress. Throws as set_name(), and memory_full.
    template <class Feature = detail::change_batch_calls>
    void progress(batch_id id, std::uint64_t done, std::uint64_t total = 0) {
        detail::require_changes<Feature>();
        if (auto const why = Feature::progress({*core_, id}, done, total))
            detail::throw_failure(why, "note the progress of batch ");
    }
    template <class Feature = detail::change_batch_calls>
    result<void> try_progress(batch_id id, std::uint64_t done, std::uint64_t total = 0) {
        detail::require_changes<Feature>();
        if (auto const why = Feature::progress({*core_, id}, done, total)) return make_error_code(why.code);
        return {};
    }

    /// As batch_scope::set_priority. Throws as set_name().
    template <class Feature = detail::change_batch_calls>
    void set_priority(batch_id id, int priority) {
        detail::require_changes<Feature>();
        if (auto const why = Feature::set_priority({*core_, id}, priority))
            detail::throw_failure(why, "set the priority of batch ");
    }
    template <class Feature = detail::change_batch_calls>
    result<void> try_set_priority(batch_id id, int priority) {
        detail::require_changes<Feature>();
        if (auto const why = Feature::set_priority({*core_, id}, priority)) return make_error_code(why.code);
        return {};
    }

    /// Moves a batch, with all that is below it, to another parent of this registry: to publish what was built
    /// apart, or to have it end with something else. The batch may be one without a guard, or of a guard of this
    /// thread. From then on it ends when the new parent does, even if it was detached; keep() gives to that; its
    /// limits and deadlines count, with what is in use in the tree, and those of the batches that it leaves no
    /// more. Ids, handles and stores stay.
    ///
    /// All or nothing. Throws no_such_batch; not_owner if either is what several batches share, or the batch is the
    /// root; below_itself; limit_exceeded, which names the batch whose limit it is; batch_in_use if something of
    /// the tree is used, a thread is inside, another thread has a guard there, or this one a guard that is nested
    /// in it; not_restorable if one of these, or either parent, has a checkpoint; why either batch is over;
    /// memory_full.
    ///
    /// Any thread. Cost: a microsecond, and as much for each batch below.
    template <class Feature = detail::change_batch_calls>
    void reparent(batch_id id, batch_id parent) {
        detail::require_changes<Feature>();
        if (auto const why = Feature::reparent({*core_, id}, parent)) detail::throw_failure(why, "move batch ");
    }
    template <class Feature = detail::change_batch_calls>
    result<void> try_reparent(batch_id id, batch_id parent) {
        detail::require_changes<Feature>();
        if (auto const why = Feature::reparent({*core_, id}, parent)) return make_error_code(why.code);
        return {};
    }

    /// As batch_scope::set_limits. Throws no_such_batch and not_owner as set_name(), and not_owner for the root.
    template <class Feature = detail::change_batch_calls>
    void set_limits(batch_id id, batch_limits const& limits) {
        detail::require_changes<Feature>();
        if (auto const why = Feature::set_limits({*core_, id}, limits))
            detail::throw_failure(why, "set the limits of batch ");
    }
    template <class Feature = detail::change_batch_calls>
    result<void> try_set_limits(batch_id id, batch_limits const& limits) {
        detail::require_changes<Feature>();
        if (auto const why = Feature::set_limits({*core_, id}, limits)) return make_error_code(why.code);
        return {};
    }

    /// As batch_scope::set_timeout. Throws no_such_batch and not_owner as set_limits().
    template <class Feature = detail::change_batch_calls>
    void set_timeout(batch_id id, std::chrono::nanoseconds timeout) {
        detail::require_changes<Feature>();
        if (auto const why = Feature::set_timeout({*core_, id}, timeout))
            detail::throw_failure(why, "set the timeout of batch ");
    }
    template <class Feature = detail::change_batch_calls>
    result<void> try_set_timeout(batch_id id, std::chrono::nanoseconds timeout) {
        detail::require_changes<Feature>();
        if (auto const why = Feature::set_timeout({*core_, id}, timeout)) return make_error_code(why.code);
        return {};
    }

    /// Gives an object to batch `to`, and returns the handle. Any thread. Throws stale_handle, batch_ended,
    /// no_such_batch, not_owner (another registry's), not_self_contained, not_restorable, limit_exceeded,
    /// memory_full, wrong_thread (the object has more than 64 KiB and a destructor, and another thread is inside
    /// its batch).
    template <detail::owned H>
    H transfer_ownership(H h, batch_id to) {
        auto const why = detail::transfer_object(*core_, detail::handle_access::raw(h), to.value);
        if (why) detail::throw_failure(why, "transfer ownership ");
        return h;
    }
    template <detail::owned H>
    result<H> try_transfer_ownership(H h, batch_id to) {
        auto const why = detail::transfer_object(*core_, detail::handle_access::raw(h), to.value);
        if (why) return make_error_code(why.code);
        return h;
    }

    /// Gives all objects to batch `to`, one by one, and returns `handles`. Throws stale_handle before any is moved
    /// if one is stale; after any other error, those before it stay in `to`.
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

    /// Makes batch `with` one more owner of an object; the owner so far remains one. The object is freed when the
    /// last of its owners ends or lets it go. Any thread. Does nothing if `with` is an owner already. Throws as
    /// transfer_ownership(), and stale_handle or batch_ended if the last owner is just letting it go. Cost, except
    /// for the first share: some 50 ns, whatever the object's size. See docs/sharing.md.
    template <detail::owned H, class Feature = detail::sharing_calls>
    H share(H h, batch_id with) {
        detail::require_sharing<Feature>();
        auto const why = Feature::share(*core_, detail::handle_access::raw(h), with.value);
        if (why) detail::throw_failure(why, "share ");
        return h;
    }
    template <detail::owned H, class Feature = detail::sharing_calls>
    result<H> try_share(H h, batch_id with) {
        detail::require_sharing<Feature>();
        auto const why = Feature::share(*core_, detail::handle_access::raw(h), with.value);
        if (why) return make_error_code(why.code);
        return h;
    }

    /// As share() with each of these batches. If one fails, none of them has got a share.
    template <detail::owned H, detail::id_range R, class Feature = detail::sharing_calls>
    H broadcast(H h, R const& with) {
        detail::require_sharing<Feature>();
        auto const why = Feature::broadcast(*core_, detail::handle_access::raw(h), detail::ids_in(with));
        if (why) detail::throw_failure(why, "broadcast ");
        return h;
    }

    /// Makes batch `with` let an object go: gives up its share, or frees an object that it owns alone. Any thread.
    /// Throws stale_handle, object_pinned, not_owner, not_restorable, batch_ended, no_such_batch.
    template <detail::owned H, class Feature = detail::sharing_calls>
    void unshare(H h, batch_id with) {
        detail::require_sharing<Feature>();
        auto const why = Feature::unshare(*core_, detail::handle_access::raw(h), with.value);
        if (why) detail::throw_failure(why, "unshare ");
    }

    /// Frees one object now, whichever batches own it. Any thread. Throws stale_handle, object_pinned,
    /// not_restorable, batch_ended, not_owner (another registry's).
    template <detail::owned H>
    void free(H h) {
        auto const why = detail::free_object_of(*core_, detail::handle_access::raw(h));
        if (why) detail::throw_failure(why, "free ");
    }
    template <detail::owned H>
    result<void> try_free(H h) {
        auto const why = detail::free_object_of(*core_, detail::handle_access::raw(h));
        if (why) return make_error_code(why.code);
        return {};
    }

    /// As batch_scope::release, whichever batches own it. Any thread.
    template <class T>
    T* release(handle<T> h) {
        detail::require_adoptable<T>();
        auto const why = detail::drop_object_of(*core_, detail::handle_access::raw(h));
        if (why) detail::throw_failure(why, "release from batch ");
        return h.unchecked();
    }
    template <class T>
    result<T*> try_release(handle<T> h) {
        detail::require_adoptable<T>();
        auto const why = detail::drop_object_of(*core_, detail::handle_access::raw(h));
        if (why) return make_error_code(why.code);
        return h.unchecked();
    }

    /// As batch_scope::cancel of a deferred call, whichever batch has it. Any thread.
    void cancel(handle<deferred_call> call) {
        auto const why = detail::drop_object_of(*core_, detail::handle_access::raw(call));
        if (why) detail::throw_failure(why, "cancel a deferred call of batch ");
    }
    result<void> try_cancel(handle<deferred_call> call) {
        auto const why = detail::drop_object_of(*core_, detail::handle_access::raw(call));
        if (why) return make_error_code(why.code);
        return {};
    }

    /// As batch_scope::detach of an object, whichever batches own it. Any thread.
    template <detail::owned H, class Feature = detail::detach_calls>
    auto detach(H h) {
        detail::require_detaching<Feature, H>();
        return Feature::detach(*core_, h);
    }
    template <detail::owned H, class Feature = detail::detach_calls>
    auto try_detach(H h) {
        detail::require_detaching<Feature, H>();
        return Feature::try_detach(*core_, h);
    }

    /// Frees all objects. Throws stale_handle or object_pinned before any is freed if one is stale or pinned. One
    /// that is named twice is freed once.
    template <detail::handle_range R>
    void free(R const& handles) {
        auto const why = detail::free_all(*core_, [&](auto f) {
            for (auto const& h : handles)
                if (!f(detail::handle_access::raw(h))) return;
        });
        if (why) detail::throw_failure(why, "free ");
    }

    /// Writes a batch's memory to the page file and gives it back to the system: all of it, except what others
    /// have a share in. The memory comes back at the same addresses, page by page, when a thread enters the batch
    /// or touches it. Pages that have not changed since are not written again. Other batches go on meanwhile; a
    /// thread that enters this one waits.
    ///
    /// Throws batch_in_use: a thread is inside, batches below hold it, it has a checkpoint, or something of it is
    /// pinned or borrowed; not_pageable, batch_ended, no_such_batch; store_full, mappings_full and what else the
    /// system reports. On failure the batch stays in memory, whole. Cost: that of writing the bytes, and a few
    /// system calls for each stretch of neighbouring runs.
    template <class Feature = detail::paging_calls>
    void page_out(batch_id id) {
        detail::require_paging<Feature>();
        Feature::page_out(*core_, id);
    }

    /// Pages out batches that are paged_when_left or automatic, while nobody is in them, in the order of
    /// registry_options::eviction, until `bytes` of memory have gone. Returns how many have; one that cannot go out
    /// stays in memory, whole. Throws std::bad_alloc. Cost: that of page_out() for each, and a look at every batch.
    template <class Feature = detail::paging_calls>
    std::size_t page_out_idle(std::size_t bytes) {
        detail::require_paging<Feature>();
        return Feature::page_out_idle(*core_, bytes);
    }

    /// Reads in what is out, now rather than when it is touched. Throws batch_ended, no_such_batch, and
    /// std::errc::io_error if not all of it could be read.
    template <class Feature = detail::paging_calls>
    void page_in(batch_id id) {
        detail::require_paging<Feature>();
        Feature::page_in(*core_, id);
    }

    /// Takes a checkpoint, to which the batch's contents can be brought back: docs/checkpoints.md. Checkpoints
    /// nest. While one is open, what was there is neither freed, given away nor moved (not_restorable), and the
    /// batch stays in memory.
    ///
    /// Throws not_restorable, naming the obstacle: an object whose destructor does more than its memory needs
    /// (also what was adopted or deferred), an evicted buffer, a buffer in a store that cannot copy; batch_in_use:
    /// another thread is inside, or holds a batch below, or the batch is the root; batch_ended, no_such_batch,
    /// memory_full, what a store reports. On failure no checkpoint is taken. Cost: making the batch's slabs
    /// read-only, a look at each object with a destructor, a copy of each buffer; later some 10 us for each page
    /// that is written to for the first time.
    template <class Feature = detail::checkpoint_calls>
    void checkpoint(batch_id id) {
        detail::require_checkpoints<Feature>();
        Feature::take(*this, id);
    }

    /// Brings the batch back to its newest checkpoint, and ends the checkpoint. Objects made or received since are
    /// freed, newest first; those given away since stay with their owners. If a store cannot bring a buffer back,
    /// throws what it reports, and the checkpoint is still open. Throws no_checkpoint, batch_in_use, batch_ended,
    /// no_such_batch. Cost: in proportion to what changed.
    template <class Feature = detail::checkpoint_calls>
    void rollback(batch_id id) {
        detail::require_checkpoints<Feature>();
        Feature::end(*this, id, true);
    }

    /// Ends the newest checkpoint; changes since then count as changes since the checkpoint before it, if there is
    /// one. Throws no_checkpoint, batch_in_use, batch_ended, no_such_batch.
    template <class Feature = detail::checkpoint_calls>
    void commit(batch_id id) {
        detail::require_checkpoints<Feature>();
        Feature::end(*this, id, false);
    }

    /// As batch_scope::enter. Throws no_such_batch, too.
    [[nodiscard]] entered enter(batch_id id);

    /// Returns the batch's status; of a batch that is gone, `done`, or `expired` or `cancelled` as long as that is
    /// remembered. Throws no_such_batch. Cost: once there was a deadline in the process, a step for each batch
    /// above.
    batch_status status(batch_id id) const;

    /// Returns the batches that an `ending` batch waits for: those that use what it owns (tenure::pin, borrow),
    /// and those below it. For a batch in a known ring of batches that wait for each other, returns those outside
    /// of the ring. Empty for any other batch. Throws no_such_batch. Cost: a look at every batch of the process.
    template <class Feature = detail::inspection>
    std::vector<batch_id> waits_for(batch_id id) const {
        detail::require_inspection<Feature>();
        return Feature::waits_for(*core_, id);
    }

    /// As batch_scope::borrow, for batch `id`, from any thread. Throws no_such_batch, too.
    template <detail::owned H, class Feature = detail::pin_calls>
    H borrow(batch_id id, H h, std::source_location where = std::source_location::current()) {
        detail::require_pins<Feature>();
        auto const why = Feature::borrow(*core_, id.value, detail::handle_access::raw(h), where);
        if (why) detail::throw_failure(why, "borrow ");
        return h;
    }
    template <detail::owned H, class Feature = detail::pin_calls>
    result<H> try_borrow(batch_id id, H h, std::source_location where = std::source_location::current()) {
        detail::require_pins<Feature>();
        auto const why = Feature::borrow(*core_, id.value, detail::handle_access::raw(h), where);
        if (why) return make_error_code(why.code);
        return h;
    }

    /// Returns what a batch uses; zeros if it is over. Throws no_such_batch.
    batch_usage usage(batch_id id) const;

    /// As usage(id), of the batch and all batches below it. `peak` is the sum of theirs: at no time was more in
    /// use. Throws no_such_batch, std::bad_alloc. Cost: that of a snapshot.
    template <class Feature = detail::inspection>
    batch_usage usage(batch_id id, recursive_t) const {
        detail::require_inspection<Feature>();
        return Feature::usage_of(*core_, id);
    }

    /// Returns once no batch waits for its destructors to run in the background (reclamation::background), and what
    /// registry_options::warm asked for is done. Any thread; within such a destructor, it returns at once.
    void drain() const noexcept;

    /// Returns the registry_usage at this moment.
    template <class Feature = detail::inspection>
    auto usage() const {
        detail::require_inspection<Feature>();
        return Feature::usage_of(*core_);
    }

    /// Returns a snapshot: the live batches at this moment, with figures that are exact for batches at rest. Takes
    /// no lock that a make, an open or an end would wait for. Cost: a look at every batch of the process.
    template <class Feature = detail::inspection>
    auto snapshot() const {
        detail::require_inspection<Feature>();
        return Feature::snapshot_of(*core_);
    }

    /// As snapshot(), of a batch and all batches below it: `stores` tells what these have there, the rest is of the
    /// registry. No batches if it is over. Throws no_such_batch.
    template <class Feature = detail::inspection>
    auto snapshot(batch_id id) const {
        detail::require_inspection<Feature>();
        return Feature::snapshot_of(*core_, id);
    }

    /// Calls f(object_info) for objects of a batch: for those that were recorded (record_objects()) or have a name,
    /// and for those with a destructor or deleter if this thread is alone in the batch, as clear() requires it, and
    /// it is not the root. Each was the batch's at one moment during the call, before f is called; those of other
    /// threads may just be being made. Those that were recorded come in the order in which they were made, after
    /// the others. Buffers and deferred calls are no objects.
    ///
    /// Any thread. Does nothing if the batch is over. One that is paged out comes in. Throws no_such_batch,
    /// std::bad_alloc, and what f throws. Cost: a look at all objects that the registry has recorded.
    template <class F, class Feature = detail::object_calls>
    void for_each_object(batch_id id, F f) const {
        detail::require_listing<Feature>();
        for (auto const& object : Feature::objects_of(*core_, id)) f(object);
    }

    /// Has the registry record of each object that is made from now on what it is and where in the program it was
    /// made, or stops that. What is being made on other threads meanwhile may be missed, and what is made where
    /// there is no memory for the record; what was adopted is not recorded. Any thread. Throws std::bad_alloc.
    /// Cost: each make takes a microsecond or two instead of a nanosecond, and some 150 bytes until a while after
    /// the object has gone; each piece of resource() tens of nanoseconds. Without it: nothing.
    template <class Feature = detail::object_calls>
    void record_objects(bool yes = true) {
        detail::require_listing<Feature>();
        Feature::record(*core_, yes);
    }

    /// Gives an object a name for for_each_object(), instead of another if it has one. T is complete; it is told as
    /// the type, where nothing else is known. Any thread. Throws stale_handle, not_owner (another registry's),
    /// batch_ended, memory_full.
    template <class T, class Feature = detail::object_calls>
    void name_object(handle<T> const& h, std::string_view name) {
        detail::require_listing<Feature>();
        if (auto const why = Feature::name(*core_, detail::handle_access::raw(h), detail::named_as<T>, name))
            detail::throw_failure(why, "name an object ");
    }
    template <class T, class Feature = detail::object_calls>
    result<void> try_name_object(handle<T> const& h, std::string_view name) {
        detail::require_listing<Feature>();
        if (auto const why = Feature::name(*core_, detail::handle_access::raw(h), detail::named_as<T>, name))
            return make_error_code(why.code);
        return {};
    }

    /// Describes what batches without a guard hold, one line a batch; empty if there are none.
    std::string leak_report() const;

    /// Gives free memory back to the system now: whole 2 MiB ranges of what this thread and the registry keep.
    /// Returns how many bytes.
    std::size_t trim() noexcept;

    /// Makes memory ready before it is needed: takes it from the system, in huge pages where it can, until `bytes`
    /// of the registry's free memory have their pages. Objects made there cause no page faults. Decay leaves the
    /// registry that many bytes from then on, in use or free, until trim() is called. Only the registry's own store
    /// counts. Any thread; others go on meanwhile.
    ///
    /// Returns the bytes that it made ready: 0 if enough were. Fewer than were missing if `stop` was requested,
    /// which is asked every 32 MiB. Throws memory_full if the system, the process's control group or
    /// registry_options::memory_limit has no room for them, and says how much there is; an eighth of what the
    /// system has left stays for others. Nothing was done then, unless the memory went to others meanwhile. Throws
    /// what the store reports. Cost: that of the page faults, some 0.2 s a GiB in huge pages.
    template <class Feature = detail::warm_calls>
    std::size_t warm(std::size_t bytes) {
        detail::require_warmth<Feature>();
        return Feature::warm(*core_, options_.memory_limit, bytes, [] { return false; });
    }
    template <detail::stop_request Token, class Feature = detail::warm_calls>
    std::size_t warm(std::size_t bytes, Token const& stop) {
        detail::require_warmth<Feature>();
        return Feature::warm(*core_, options_.memory_limit, bytes, [&] { return stop.stop_requested(); });
    }

    /// As warm(), but returns the error. What was made ready before it stays so.
    template <class Feature = detail::warm_calls>
    result<std::size_t> try_warm(std::size_t bytes) {
        detail::require_warmth<Feature>();
        return Feature::try_warm(*core_, options_.memory_limit, bytes, [] { return false; });
    }
    template <detail::stop_request Token, class Feature = detail::warm_calls>
    result<std::size_t> try_warm(std::size_t bytes, Token const& stop) {
        detail::require_warmth<Feature>();
        return Feature::try_warm(*core_, options_.memory_limit, bytes, [&] { return stop.stop_requested(); });
    }

private:
    friend detail::registry_core& detail::core_of(registry& r) noexcept;
    friend detail::global_registry;
    friend detail::timing_calls;

    void          tell_leaks() const noexcept;
    detail::found find(batch_id id, char const* call) const;
    detail::found find_to_end(batch_id id, char const* call) const;
    void          end(batch_id id, bool destroy);

    detail::registry_core* core_;
    registry_options       options_;
};

namespace detail {

inline registry_core& core_of(registry& r) noexcept { return *r.core_; }

}  // namespace detail

}  // namespace tenure

#ifndef TENURE_SEPARATE
#include <tenure/impl/registry.ipp>
#endif

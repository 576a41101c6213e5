// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

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
#include <tenure/detail/census.hpp>
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

    /// Opened by the first use, closed at exit.
    static registry& global();

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
    /// asked to stop: its make fails from then on, and the batch is `ending` until that guard closes.
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

    /// Frees one object now, whoever owns it; any thread. Throws stale_handle, batch_ended, not_owner (another
    /// registry's).
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

    /// Frees all; throws stale_handle before any is freed if one is stale. One that is named twice is freed once.
    template <detail::handle_range R>
    void free(R const& handles) {
        for (auto const& h : handles)
            if (!h.alive()) detail::throw_stale(detail::handle_access::raw(h));
        for (auto const& h : handles)
            if (h.alive()) free(h);
    }

    /// Writes the memory of a batch to the page file and gives it back to the system: a whole batch, at the same
    /// addresses, without what others have a share in. Whoever enters or touches it has it back, page by page; what
    /// did not change since it last came is not written again. Throws batch_in_use: a thread is inside, or batches
    /// below hold it; not_pageable, batch_ended, no_such_batch; store_full and what else the system says of the
    /// file: then it stays in memory, whole. Other batches go on meanwhile; who enters this one waits.
    ///
    /// Cost: that of writing the bytes, and a few system calls for each run that is not a neighbour's.
    void page_out(batch_id id);

    /// Reads in what is out, now rather than when it is touched. Throws batch_ended, no_such_batch, and
    /// std::errc::io_error: it could not all be read.
    void page_in(batch_id id);

    /// As batch_scope::enter. Throws no_such_batch, too.
    [[nodiscard]] entered enter(batch_id id);

    /// `done` for whatever is over. Throws no_such_batch.
    batch_status status(batch_id id) const;

    /// Throws no_such_batch; zero for what is over.
    batch_usage usage(batch_id id) const;

    /// Returns once no batch waits for its destructors to be run in the background (reclamation::background). Any
    /// thread; within such a destructor, at once.
    void drain() const noexcept {
        if (!detail::this_thread.reclaiming) core_->background.drain();
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

    static registry& open_global();
    void             watch_deadlines(std::shared_ptr<detail::deadline_watch> watch);
    detail::lane&    root_lane() { return *detail::lane_of_root(*core_); }
    detail::found    find(batch_id id, char const* call) const;
    detail::found    find_to_end(batch_id id, char const* call) const;
    void             end(batch_id id, bool destroy);

    detail::registry_core* core_;
    registry_options       options_;
};

inline registry::registry(registry_options options) : options_(std::move(options)) {
    any_store&      store  = options_.store;
    any_store const memory = store && store.capabilities().addressable ? store : std::make_shared<heap_store>();
    if (!store) store = memory;
    detail::paging_options paging{options_.page_file, options_.memory_limit, options_.eviction, options_.access};
    core_ =
        detail::open_registry(memory, store, std::move(paging), static_cast<std::uint64_t>(options_.decay.count()),
                              std::source_location::current());
    core_->background.limit(options_.background_limit);
    if (options_.clock) core_->deadlines.now = options_.clock;
}

inline registry::~registry() {
    core_->background.stop();
    if (options_.on_leak) try {
            std::string const report = leak_report();
            if (!report.empty()) options_.on_leak(report);
        } catch (std::bad_alloc const&) {
            std::fputs("tenure: no memory left to tell which batches nobody ended\n", stderr);
        }
    detail::close_registry(core_);
}

inline registry& registry::global() {
    static registry& instance = open_global();
    return instance;
}

TENURE_COLD inline registry& registry::open_global() {
    static registry instance;
    return instance;
}

inline detail::found registry::find(batch_id id, char const* call) const {
    detail::found const f = detail::find_batch(*core_, id.value);
    if (!f.known) throw error(errc::no_such_batch, call + ("#" + std::to_string(id.value)));
    return f;
}

inline batch_id registry::new_batch(batch_options const& options, batch_id parent, std::source_location where) {
    detail::batch_record* up = core_->root;
    if (parent) {
        up = find(parent, "open a batch below ").record;
        if (!up)
            throw error(detail::over_because(up, parent.value),
                        "open a batch below #" + std::to_string(parent.value));
    }
    return {detail::open_batch(*core_, up, &options, false, where)->id.load(std::memory_order_relaxed)};
}

inline batch_id registry::current_batch() noexcept {
    detail::lane const* const l = detail::this_thread.current;
    return l ? batch_id{l->batch->id.load(std::memory_order_relaxed)} : global().root();
}

inline batch_id registry::set_current_batch(batch_id id) {
    batch_id const        previous = current_batch();
    detail::batch_record* b        = detail::find_anywhere(id.value);
    if (!b) {
        find(id, "make current: batch ");
        throw error(detail::over_because(b, id.value), "make current: batch #" + std::to_string(id.value));
    }
    detail::lane* to      = nullptr;
    bool          visited = false;
    if (b == global().core_->root) {
        // null stands for it
    } else if (b == detail::this_thread.reclaiming) {
        to = &b->primary;  // a destructor puts back what was current: there, too, nothing can be made
    } else if (b->guard.load(std::memory_order_acquire) == &detail::this_thread) {
        if (b->closed() && !b->in_chain.load(std::memory_order_relaxed))
            throw error(b->why_closed(), "make current: batch #" + std::to_string(id.value));
        to = &b->primary;
    } else {
        if (!detail::is_root(*b) && !detail::hold(*b, id.value))
            throw error(detail::over_because(b, id.value), "make current: batch #" + std::to_string(id.value));
        to                                = detail::enter_held(*b);
        visited                           = true;
        detail::this_thread.leave_visited = &detail::leave_visited;
    }
    detail::switch_to(to, visited);
    return previous;
}

inline void registry::end(batch_id id, bool destroy) {
    detail::found const f = find_to_end(id, destroy ? "destroy batch " : "end batch ");
    if (f.record) detail::end_record(*f.record, id.value, destroy);
}

inline void registry::watch_deadlines(std::shared_ptr<detail::deadline_watch> watch) {
    detail::deadline_queue& q = core_->deadlines;
    {
        std::scoped_lock const guard(q.mutex);
        q.watch = watch;
        q.watched.store(watch != nullptr, std::memory_order_relaxed);
    }
    if (watch) watch->earlier();  // for those that are there already
}

inline void registry::cancel(batch_id id) {
    detail::found const f = find_to_end(id, "cancel batch ");
    if (f.record) detail::stop_batch(*f.record, id.value, errc::cancelled);
}

inline std::stop_token registry::stop_token(batch_id id) const {
    detail::found const f = find(id, "stop_token of batch ");
    return detail::stop_token_of(f.record ? *f.record : detail::nobody, id.value);
}

inline batch_report registry::end_with_report(batch_id id) {
    detail::found const f = find_to_end(id, "end batch ");
    return f.record ? detail::end_by_id(*f.record, id.value) : batch_report{};
}

inline detail::found registry::find_to_end(batch_id id, char const* call) const {
    detail::found const f = find(id, call);
    if (f.record == core_->root) throw error(errc::not_owner, "end the root: it ends with its registry");
    return f;
}

inline void registry::page_out(batch_id id) {
    auto* const           b     = find(id, "page out batch ").record;
    std::string           label = b ? detail::label_of(*b) : "#" + std::to_string(id.value);
    std::error_code const why   = !b                    ? make_error_code(errc::batch_ended)
                                  : detail::is_root(*b) ? make_error_code(errc::not_pageable)
                                                        : detail::page_out_batch(*b, id.value, true);
    if (why) throw error(why, "page out batch " + label + " to " + core_->pages.options.directory);
}

inline void registry::page_in(batch_id id) {
    auto* const b = find(id, "page in batch ").record;
    if (!b || (!detail::is_root(*b) && !detail::hold(*b, id.value, detail::unless_over)))
        throw error(errc::batch_ended, "page in batch #" + std::to_string(id.value));
    bool const all = detail::is_root(*b) || detail::page_in_batch(*b);
    if (!detail::is_root(*b)) detail::let_go_in_place(b);
    if (!all)
        throw error(std::make_error_code(std::errc::io_error),
                    "page in batch #" + std::to_string(id.value) + " from " + core_->pages.options.directory);
}

inline entered registry::enter(batch_id id) {
    auto* const b = find(id, "enter batch ").record;
    if (b && detail::visit_primary(*b, id.value)) return entered(&b->primary);
    if (!b || (!detail::is_root(*b) && !detail::hold(*b, id.value)))
        throw error(detail::over_because(b, id.value), "enter batch #" + std::to_string(id.value));
    return entered(detail::enter_held(*b));
}

inline batch_status registry::status(batch_id id) const {
    detail::found const f = find(id, "status of batch ");
    return detail::status_of(f.record ? *f.record : detail::nobody, id.value);
}

inline batch_usage registry::usage(batch_id id) const {
    detail::found const f = find(id, "usage of batch ");
    return f.record ? detail::usage_of(*f.record) : batch_usage{};
}

inline registry_usage registry::usage() const { return detail::usage_of(*core_); }

inline tenure::snapshot registry::snapshot() const { return detail::census(*core_); }

inline std::string registry::leak_report() const {
    std::string out;
    for (batch_info const& b : snapshot().batches)
        if (!b.guarded && !b.in_background && b.id != root()) out += "  " + detail::describe(b);
    return out.empty() ? out : "tenure: batches that nobody ended:\n" + out;
}

inline std::size_t registry::trim() noexcept { return detail::trim(*core_); }

}  // namespace tenure

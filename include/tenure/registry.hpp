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
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenure/batch.hpp>
#include <tenure/detail/census.hpp>
#include <tenure/detail/rolling_back.hpp>
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

    /// Free memory that stays free this long goes back to the system, a few MiB at a time, as batches come and go.
    std::chrono::nanoseconds decay = std::chrono::seconds(5);

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

    /// Reports what detached and manual batches still hold, then frees everything. Nobody may be inside.
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

    /// The closing brace, from any thread. No-op if it is over. Throws no_such_batch. A guard of another thread is
    /// asked to stop: its make fails from then on, and the batch is `ending` until that guard closes.
    void end_batch(batch_id id) { end(id, false); }

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

    /// Throws no_such_batch; zero for what is over.
    batch_usage usage(batch_id id) const;

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
    friend detail::lane& detail::current_lane();

    static registry& open_global();
    detail::lane&    root_lane() { return *detail::lane_of_root(*core_); }
    detail::found    find(batch_id id, char const* call) const;
    detail::found    find_to_end(batch_id id, char const* call) const;
    void             end(batch_id id, bool destroy);

    detail::batch_record& live(batch_id id, char const* call) const;

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
}

inline registry::~registry() {
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
        if (!up) throw error(errc::batch_ended, "open a batch below #" + std::to_string(parent.value));
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
        throw error(errc::batch_ended, "make current: batch #" + std::to_string(id.value));
    }
    detail::lane* to      = nullptr;
    bool          visited = false;
    if (b == global().core_->root) {
        // null stands for it
    } else if (b->guard.load(std::memory_order_acquire) == &detail::this_thread) {
        if (b->closed()) throw error(errc::batch_ended, "make current: batch #" + std::to_string(id.value));
        to = &b->primary;
    } else {
        if (!detail::is_root(*b) && !detail::hold(*b, id.value))
            throw error(errc::batch_ended, "make current: batch #" + std::to_string(id.value));
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

inline detail::batch_record& registry::live(batch_id id, char const* call) const {
    auto* const b = find(id, call).record;
    if (!b) throw error(errc::batch_ended, call + ("#" + std::to_string(id.value)));
    return *b;
}

inline void registry::checkpoint(batch_id id) {
    detail::take_checkpoint(live(id, "checkpoint of batch "), id.value);
}

inline void registry::rollback(batch_id id) {
    detail::end_checkpoint(live(id, "roll back batch "), id.value, true);
}

inline void registry::commit(batch_id id) { detail::end_checkpoint(live(id, "commit batch "), id.value, false); }

inline entered registry::enter(batch_id id) {
    auto* const b = find(id, "enter batch ").record;
    if (!b || (!detail::is_root(*b) && !detail::hold(*b, id.value)))
        throw error(errc::batch_ended, "enter batch #" + std::to_string(id.value));
    return entered(detail::enter_held(*b));
}

inline batch_status registry::status(batch_id id) const {
    detail::found const f = find(id, "status of batch ");
    if (!f.record) return batch_status::done;
    std::uint64_t const s = f.record->state.load(std::memory_order_acquire);
    return detail::same_batch(s, id.value) ? detail::status_of(s) : batch_status::done;
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
        if (!b.guarded && b.id != root()) out += "  " + detail::describe(b);
    return out.empty() ? out : "tenure: batches that nobody ended:\n" + out;
}

inline std::size_t registry::trim() noexcept { return detail::trim(*core_); }

}  // namespace tenure

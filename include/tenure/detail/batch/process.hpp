// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/hash_index.hpp>
#include <tenure/detail/base/owned_ptr.hpp>
#include <tenure/detail/batch/background_front.hpp>
#include <tenure/detail/batch/batch_record.hpp>
#include <tenure/detail/batch/object_recorder.hpp>
#include <tenure/detail/batch/paging_front.hpp>
#include <tenure/detail/batch/thread_context.hpp>
#include <tenure/detail/batch/timing_front.hpp>
#include <tenure/detail/batch/uses_front.hpp>
#include <tenure/detail/unit/supply.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

struct buffers_front;
struct sharing_front;

/// What a `registry` is, below its public face.
struct registry_core {
    static constexpr std::uint32_t closed = std::uint32_t{1} << 31;  ///< it goes with the last of its supplies

    /// Frees what an ended batch without holds owns. Returns its parent, for the caller to release, if the batch
    /// was holding it; else null.
    using reclaimer = batch_record* (*)(batch_record*) noexcept;

    registry_core(any_store store, std::uint64_t decay_ns, std::uint64_t number, reclaimer how) noexcept
        : own(std::move(store), *this, decay_ns, number), decay(decay_ns), reclaim(how) {}
    ~registry_core() { delete recorder.load(std::memory_order_relaxed); }

    supply                     own;    ///< from its own store
    owned_ptr<paging_front>    pages;  ///< null if the program does without
    std::uint64_t const        decay;
    reclaimer const            reclaim;
    std::mutex                 supplies_mutex;
    supply*                    supplies = nullptr;  ///< from stores that batches name
    hash_index<supply>         by_store;            ///< these, by the hash of their stores
    std::atomic<std::uint32_t> departures{0};       ///< supplies unlinked and not gone yet; and `closed`
    batch_record*              root    = nullptr;
    std::uint32_t              in_fork = 0;  ///< which forked child last found it open: fork_list::forks
    owned_ptr<timing_front>    timing;       ///< as `pages`
    spin_lock                  loose_lock;
    batch_record*              loose = nullptr;    ///< without a guard, newest first, through older and newer
    std::atomic<std::uint64_t> foreign_ends{0};    ///< guards destroyed on a thread that did not open them
    std::atomic<std::uint64_t> unordered_ends{0};  ///< guards destroyed before others below them on the same thread
    std::atomic<std::uint64_t> failed_rollbacks{0};   ///< of batches that an exception left
    registry_core*             next = nullptr;        ///< of all registries
    owned_ptr<background_front>   background;         ///< as `pages`
    owned_ptr<uses_front>         uses;               ///< as `pages`
    std::atomic<object_recorder*> recorder{nullptr};  ///< once there is one; its own
    any_store                     adopted;  ///< of memory made elsewhere, once there is some; under supplies_mutex
};

/// Returns what has recorded objects of the batch's registry, or null.
inline object_recorder* former_recorder_of(batch_record const& b) noexcept {
    return b.registry.load(std::memory_order_relaxed)->recorder.load(std::memory_order_acquire);
}

/// Returns what records the objects that the batch makes now, or null.
inline object_recorder* recorder_of(batch_record const& b) noexcept {
    if (!any_registry_records()) return nullptr;
    object_recorder* const r = former_recorder_of(b);
    return r && r->records.load(std::memory_order_relaxed) ? r : nullptr;
}

/// Has the next make in a lane of this thread's come to refill() if it is to be recorded. The window stays what it
/// is: what was charged for it and what was made in it.
inline void shut_if_recorded(lane& l) noexcept {
    if (recorder_of(*l.batch)) l.window_end.store(0, std::memory_order_relaxed);
}

/// Throws no_feature.
[[noreturn]] TENURE_COLD inline void refuse_without(char const* header, char const* call) {
    raise(error(errc::no_feature, std::string(call) + ", without <" + header + ">"));
}

struct hazard_slot;
void give_hazard_slots(hazard_slot* first) noexcept;

inline bool batch_record::is_here() const noexcept {
    return primary.thread.load(std::memory_order_relaxed) == &this_thread;
}

/// The state of the process, which outlives threads and registries.
struct process_state {
    std::mutex     mutex;
    registry_core* registries   = nullptr;
    std::uint64_t  last_uid     = 0;
    batch_record*  free_records = nullptr;
    std::uint32_t  record_count = 0;  ///< ever made
    lane*          free_lanes   = nullptr;
    hazard_slot*   free_slots   = nullptr;
    std::uint64_t  last_serial  = 0;

    std::atomic<batch_record*>       global_root{nullptr};  ///< set when there is a global registry
    std::atomic<std::size_t>         threads{0};  ///< live threads that have opened a batch or made something
    std::atomic<void (*)() noexcept> leave_guards{nullptr};  ///< called by a thread that ends; set by registries
};
TENURE_SHARED inline constinit process_state process{};

/// Returns what the thread holds when it ends.
class thread_exit {
public:
    struct known_cache {
        std::uint64_t uid;
        run_cache*    cache;
    };
    std::vector<known_cache> caches;

    thread_exit() noexcept {
        this_thread.counted = true;
        process.threads.fetch_add(1, std::memory_order_relaxed);
    }
    ~thread_exit() {
        thread_context& me = this_thread;
        if (me.leave_visited) me.leave_visited();
        if (me.newest) process.leave_guards.load(std::memory_order_acquire)();
        if (me.leave_resources) me.leave_resources();
        std::scoped_lock const guard(process.mutex);
        for (registry_core* r = process.registries; r; r = r->next) {
            for (known_cache const& k : caches) {
                if (k.uid != r->own.uid) continue;
                give_back_runs(r->own.slabs, *k.cache);
                k.cache->taken.store(false, std::memory_order_release);
            }
        }
        while (batch_record* b = me.records) {
            me.records           = b->next_free;
            b->next_free         = process.free_records;
            process.free_records = b;
        }
        give_hazard_slots(std::exchange(me.slots, nullptr));
        give_hazard_slots(std::exchange(me.reader, nullptr));
        me.current = nullptr;
        if (lane* const l = me.root_lane) {
            std::scoped_lock const with_lane(l->batch->lock);
            l->users = 0;
            l->thread.store(nullptr, std::memory_order_release);
            if (l == &l->batch->primary) l->batch->state.fetch_and(~batch_flags::taken, std::memory_order_release);
            me.root_lane = nullptr;
        }
        me.record_count = ~std::uint32_t{0};  // it keeps none from here on
        me.cache        = nullptr;
        me.cache_uid    = 0;
        me.exiting      = true;  // from here on the thread works without stocks of its own
        me.counted      = false;
        process.threads.fetch_sub(1, std::memory_order_release);
    }
};
TENURE_SHARED inline thread_local thread_exit on_thread_exit;

/// Has thread_exit return what this thread is about to take. It is made when it is first looked at.
inline void return_at_exit() noexcept { [[maybe_unused]] auto const* const looked_at = &on_thread_exit; }

}  // namespace tenure::detail

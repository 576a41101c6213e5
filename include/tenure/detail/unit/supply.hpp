// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include <tenure/detail/base/spin_lock.hpp>
#include <tenure/detail/blocks/unfreed.hpp>
#include <tenure/detail/unit/run_cache.hpp>

namespace tenure::detail {

struct registry_core;

/// What one registry has from one store: slabs, if the store is addressable, and buffers. The registry's own store
/// has the first supply, from which threads keep stocks of runs. A store that single batches name has a supply of
/// its own, which goes with the last batch that uses it and the last object in it.
struct supply {
    supply(any_store from, registry_core& of, std::uint64_t decay_ns, std::uint64_t number) noexcept
        : store(std::move(from)), slabs(store, *this, decay_ns), registry(of), uid(number) {}
    /// Unmaps the slabs. No read section can see them any more: read_section.hpp.
    ~supply() {
        slabs.unmap(refused);
        if (!refused.empty()) refused.retry(store);  // for the last time: no caller is left to report an error to
        while (run_cache* const c = caches.load(std::memory_order_relaxed)) {
            caches.store(c->next, std::memory_order_relaxed);
            delete c;
        }
    }
    supply(supply const&)            = delete;
    supply& operator=(supply const&) = delete;

    bool addressable() const noexcept { return store.capabilities().addressable; }

    any_store               store;
    depot                   slabs;
    unfreed                 refused;
    registry_core&          registry;
    std::uint64_t const     uid;         ///< 0: no stocks
    spin_lock               holes_lock;  ///< of all lists of holes; taken inside a unit's lock
    hole_list               recyclable;  ///< units that are no batch's memory, and hold little of what was kept
    std::atomic<run_cache*> caches{nullptr};
    std::uint32_t           users =
        0;  ///< batches, and what they have in it; guarded by the registry's supplies_mutex, as `next` is
    supply*       next   = nullptr;  ///< of the registry, or of the departing supplies
    supply**      before = nullptr;  ///< what points to it among the registry's; guarded as `users` is
    std::uint64_t index_key{};       ///< in registry_core::by_store, as the next is
    supply*       index_next = nullptr;
};

}  // namespace tenure::detail

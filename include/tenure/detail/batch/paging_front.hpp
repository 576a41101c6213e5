// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/owned_ptr.hpp>
#include <tenure/eviction.hpp>

namespace tenure {
struct paging_info;
}

namespace tenure::detail {

struct batch_record;
struct registry_core;

struct paging_options {
    std::string         directory;
    memory_limits       limit{};
    any_eviction_policy eviction = least_recently_entered{};
    paged_access        access   = paged_access::brings_back;
};

/// The paging of one registry, as far as others know it: see paging/.
///
/// A thread that moves a batch's memory first claims batch_record::paging, then looks whether a thread has entered
/// or holds the batch. A thread that comes first holds the batch, then looks at the state. So one of them sees the
/// other.
struct paging_front {
    explicit paging_front(bool l) noexcept : limited(l) {}
    paging_front(paging_front const&)            = delete;
    paging_front& operator=(paging_front const&) = delete;
    virtual ~paging_front()                      = default;

    /// Makes room for `bytes` more below the memory limit, if need be with what idle batches give up. Returns false
    /// if there is too little.
    virtual bool make_room(std::size_t bytes) noexcept = 0;

    /// As registry::page_out_idle(). Throws std::bad_alloc.
    virtual std::size_t page_out_idle(std::size_t bytes) = 0;

    /// Makes the memory of a batch accessible, which the caller holds. `entered`: a thread will use and may change
    /// it.
    virtual void come_back(batch_record& b, bool entered) noexcept = 0;

    /// Pages out a paged_when_left batch if nothing holds it after a thread has let go of it.
    virtual void note_leaving(batch_record& b, std::uint64_t id) noexcept = 0;

    /// Drops what an ended batch has in the page file, once nobody uses it.
    virtual void drop_pages(batch_record& b) noexcept = 0;

    /// Stops counting the memory of an ended batch as out, once it has gone back.
    virtual void settle(batch_record& b) noexcept = 0;

    /// For the message of a refused make: the memory in use, the limit, and the largest holders.
    virtual std::string largest_holders() const = 0;

    virtual paging_info describe() const = 0;

    virtual void lock_for_fork() noexcept     = 0;
    virtual void unlock_after_fork() noexcept = 0;

    bool const                 limited;     ///< the registry has a memory limit
    std::atomic<std::uint64_t> entries{0};  ///< into batches: the clock of evictions
};

/// Returns the paging of a new registry. A weak symbol, which is there if a source of the program includes
/// <tenure/paging.hpp>. Throws std::bad_alloc.
[[gnu::weak]] TENURE_OWN owned_ptr<paging_front> new_paging(registry_core& r, paging_options options);

}  // namespace tenure::detail

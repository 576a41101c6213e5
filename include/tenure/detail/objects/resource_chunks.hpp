// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

#include <sys/mman.h>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/os.hpp>
#include <tenure/detail/batch/process.hpp>
#include <tenure/detail/objects/batch_figures.hpp>
#include <tenure/detail/objects/lane_resource.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Memory for lane_resource. No two batches ever have a resource at the same address, because a container may
/// outlive its batch and use the resource again: it is then told that the batch is over, and never reaches the
/// next batch with that record.
///
/// Each thread cuts resources from a chunk of its own. A chunk whose resources are all over stays until `stay`
/// more such chunks have come: some 130,000 batches, or 64 threads that ended. Then it gives its memory back and
/// keeps its addresses, so a later use gets a SIGSEGV.
struct resource_chunk {
    static constexpr std::size_t   bytes = std::size_t{1} << 16;
    static constexpr std::size_t   stay  = 64;
    static constexpr std::uint32_t room  = static_cast<std::uint32_t>((bytes - 64) / sizeof(lane_resource));

    std::atomic<std::uint32_t> left{room};  ///< resources that are not over, or not yet made
    resource_chunk*            next = nullptr;

    void* at(std::uint32_t i) noexcept {
        return reinterpret_cast<std::byte*>(this) + 64 + i * sizeof(lane_resource);
    }
    static resource_chunk* of(std::pmr::memory_resource const* r) noexcept {
        return reinterpret_cast<resource_chunk*>(reinterpret_cast<std::uintptr_t>(r) & ~(bytes - 1));
    }
};
static_assert(sizeof(resource_chunk) <= 64);

/// Cuts chunks from one reservation after another, so that those that are over lie side by side and form one
/// mapping.
class resource_chunks {
public:
    /// Returns a new chunk, or null if there is no memory.
    resource_chunk* take() noexcept {
        constexpr std::size_t  many = 1024 * resource_chunk::bytes;
        std::scoped_lock const guard(mutex_);
        if (next_ == end_) {
            void* const p = reserve_aligned(many, resource_chunk::bytes);
            if (!p) return nullptr;
            next_ = static_cast<std::byte*>(p);
            end_  = next_ + many;
        }
        void* const at = next_;
        next_ += resource_chunk::bytes;
        return ::new (at) resource_chunk;
    }

    /// Takes a chunk whose resources are all over. If there are more than `stay`, the oldest gives its memory
    /// back.
    void put(resource_chunk* c) noexcept {
        std::scoped_lock const guard(mutex_);
        c->next                        = nullptr;
        (last_ ? last_->next : first_) = c;
        last_                          = c;
        if (++count_ <= resource_chunk::stay) return;
        resource_chunk* const gone = first_;
        first_                     = gone->next;
        --count_;
        [[maybe_unused]] void* const same =
            ::mmap(gone, resource_chunk::bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                   -1, 0);  // if the system refuses, the chunk stays as it is
    }

    void lock_for_fork() noexcept { mutex_.lock(); }
    void unlock_after_fork() noexcept { mutex_.unlock(); }

private:
    std::mutex      mutex_;
    std::byte*      next_  = nullptr;
    std::byte*      end_   = nullptr;
    resource_chunk* first_ = nullptr;  ///< chunks whose resources are all over, oldest first
    resource_chunk* last_  = nullptr;
    std::size_t     count_ = 0;
};
TENURE_SHARED inline constinit resource_chunks all_resources{};

inline void leave_resources(resource_chunk* c, std::uint32_t n) noexcept {
    if (c->left.fetch_sub(n, std::memory_order_acq_rel) == n) all_resources.put(c);
}

/// Gives up this thread's chunk, from which nothing more is cut: it is full, or the thread ends.
inline void leave_own_resources() noexcept {
    thread_context& me = this_thread;
    if (!me.resources) return;
    leave_resources(me.resources, resource_chunk::room - me.resources_taken);
    me.resources = nullptr;
}

TENURE_COLD inline void begin_resources() {
    thread_context& me   = this_thread;
    me.leave_resources   = &leave_own_resources;
    resource_chunk* next = all_resources.take();
    if (!next) raise(std::bad_alloc());
    return_at_exit();
    me.resources       = next;
    me.resources_taken = 0;
}

/// Ends the resources of a lane whose batch is over, or is cleared.
TENURE_SLOW inline void end_resource(lane& l) noexcept {
    auto* r = static_cast<lane_resource*>(l.resource.load(std::memory_order_relaxed));
    l.resource.store(nullptr, std::memory_order_relaxed);
    while (r) {
        lane_resource* const next = r->next;
        r->go_to(nullptr, 0);
        leave_resources(resource_chunk::of(r), 1);
        r = next;
    }
}

}  // namespace tenure::detail

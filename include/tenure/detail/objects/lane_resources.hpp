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
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Where lane_resources come from. No two batches ever have one at the same address, for a container may outlive
/// its batch and come back to it: then it is told that the batch is over, and never reaches the next one that has
/// the same record.
///
/// They are cut from chunks, by each thread from its own. A chunk in which all are over stays for a while as it is,
/// and then gives its memory back and keeps its addresses: whoever comes back after that gets a SIGSEGV. That is
/// after `stay` chunks: some 130,000 batches, or 64 threads that ended.
struct resource_chunk {
    static constexpr std::size_t   bytes = std::size_t{1} << 16;
    static constexpr std::size_t   stay  = 64;
    static constexpr std::uint32_t room  = static_cast<std::uint32_t>((bytes - 64) / sizeof(lane_resource<lane>));

    std::atomic<std::uint32_t> left{room};  ///< that are not over, those that are yet to come included
    resource_chunk*            next = nullptr;

    void* at(std::uint32_t i) noexcept {
        return reinterpret_cast<std::byte*>(this) + 64 + i * sizeof(lane_resource<lane>);
    }
    static resource_chunk* of(lane_resource<lane> const* r) noexcept {
        return reinterpret_cast<resource_chunk*>(reinterpret_cast<std::uintptr_t>(r) & ~(bytes - 1));
    }
};
static_assert(sizeof(resource_chunk) <= 64);

/// Chunks from one reservation after the other, so that those that are over lie side by side and are one mapping.
class resource_chunks {
public:
    /// Null: no memory.
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

    /// All in it are over.
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
                   -1, 0);  // where the system refuses, it stays as it is
    }

    void lock_for_fork() noexcept { mutex_.lock(); }
    void unlock_after_fork() noexcept { mutex_.unlock(); }

private:
    std::mutex      mutex_;
    std::byte*      next_  = nullptr;
    std::byte*      end_   = nullptr;
    resource_chunk* first_ = nullptr;  ///< in which all are over, the oldest first
    resource_chunk* last_  = nullptr;
    std::size_t     count_ = 0;
};
TENURE_SHARED inline constinit resource_chunks all_resources{};

inline void leave_resources(resource_chunk* c, std::uint32_t n) noexcept {
    if (c->left.fetch_sub(n, std::memory_order_acq_rel) == n) all_resources.put(c);
}

/// At the end of a thread: nobody goes on in its chunk.
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
    [[maybe_unused]] auto const* touched = &on_thread_exit;
    me.resources                         = next;
    me.resources_taken                   = 0;
}

/// Throws batch_ended, std::bad_alloc.
TENURE_SLOW inline lane_resource<lane>* make_resource(lane& l) {
    batch_record& b = *l.batch;
    if (b.closed()) throw_failure({b.why_closed(), &b}, "resource() of batch ");
    thread_context& me = this_thread;
    if (!me.resources) begin_resources();
    auto* const made = ::new (me.resources->at(me.resources_taken))
        lane_resource<lane>(l, l.serial.load(std::memory_order_relaxed), b.id.load(std::memory_order_relaxed));
    l.resource.store(made, std::memory_order_relaxed);
    if (++me.resources_taken == resource_chunk::room || me.exiting) leave_own_resources();
    return made;
}

/// What containers in the lane take. The same for as long as the batch lives.
inline std::pmr::memory_resource* resource_of(lane& l) {
    if (auto* const made = l.resource.load(std::memory_order_relaxed)) [[likely]]
        return made;
    return make_resource(l);
}

/// The lane's batch is over.
TENURE_SLOW inline void end_resource(lane& l) noexcept {
    resource_chunk* const c = resource_chunk::of(l.resource.load(std::memory_order_relaxed));
    l.resource.store(nullptr, std::memory_order_relaxed);
    leave_resources(c, 1);
}

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory_resource>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/batch/lane.hpp>

namespace tenure::detail {

void*             allocate_from(lane& l, std::size_t bytes, std::size_t alignment);
void              deallocate_to(lane& l, std::uint64_t id, void* p, std::size_t bytes, std::size_t alignment);
[[noreturn]] void refuse_over(std::uint64_t id);

/// The pmr face of a lane, for one batch until it ends, is cleared, or gives all that it has to another one of this
/// thread, in which it goes on. A container that is there longer must not get at what is made next: its allocations
/// throw batch_ended, and what it gives back is ignored. So no two resources ever have the same address:
/// resource_chunks.hpp.
class TENURE_SHARED lane_resource final : public std::pmr::memory_resource {
public:
    lane_resource(lane& l, std::uint64_t id) noexcept : lane_(&l), id_(id) {}

    /// Returns whether this is a resource of `b`, and `b` lives.
    bool is_of(batch_record const& b) const noexcept {
        lane const* const l = lane_.load(std::memory_order_relaxed);
        return l && l->batch == &b;
    }

    /// From here on it allocates from another lane; from none if that is null. The caller's lane has it in its
    /// list.
    void go_to(lane* l, std::uint64_t id) noexcept {
        if (l) id_ = id;
        lane_.store(l, std::memory_order_relaxed);
    }

    lane_resource* next = nullptr;  ///< of the same lane, to which another batch gave it

private:
    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
        lane* const l = lane_.load(std::memory_order_relaxed);
        if (!l) [[unlikely]]
            refuse_over(id_);
        return allocate_from(*l, bytes, alignment);
    }
    void do_deallocate(void* p, std::size_t bytes, std::size_t alignment) override {
        if (lane* const l = lane_.load(std::memory_order_relaxed)) deallocate_to(*l, id_, p, bytes, alignment);
    }
    bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override { return this == &other; }

    std::atomic<lane*> lane_;  ///< null: it is over
    std::uint64_t      id_;    ///< of the lane's batch
};

}  // namespace tenure::detail

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
[[noreturn]] void refuse_over(std::uint64_t serial);

/// The pmr face of a lane, for one batch until it ends or is cleared. A container that is there longer must not get
/// at what is made next: its allocations throw batch_ended, and what it gives back is ignored. So no two resources
/// of a lane ever have the same address: resource_chunks.hpp.
class TENURE_SHARED lane_resource final : public std::pmr::memory_resource {
public:
    lane_resource(lane& l, std::uint64_t serial, std::uint64_t id) noexcept : lane_(l), serial_(serial), id_(id) {}

    /// Returns whether this is the resource of `b`, and `b` lives.
    bool is_of(batch_record const& b) const noexcept { return !is_over() && lane_.batch == &b; }

private:
    bool is_over() const noexcept { return lane_.resource.load(std::memory_order_relaxed) != this; }

    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
        if (is_over()) [[unlikely]]
            refuse_over(serial_);
        return allocate_from(lane_, bytes, alignment);
    }
    void do_deallocate(void* p, std::size_t bytes, std::size_t alignment) override {
        if (!is_over()) deallocate_to(lane_, id_, p, bytes, alignment);
    }
    bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override { return this == &other; }

    lane&               lane_;
    std::uint64_t const serial_;  ///< the lane's when this was made
    std::uint64_t const id_;      ///< of the same batch
};

}  // namespace tenure::detail

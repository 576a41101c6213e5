// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>

#include <tenure/detail/base/byte_limit.hpp>
#include <tenure/detail/blocks/block_table.hpp>
#include <tenure/device/store/device_space.hpp>
#include <tenure/error.hpp>
#include <tenure/result.hpp>
#include <tenure/store/concept.hpp>

namespace tenure::detail {

/// Keeps the memory of blocks that something outside the store points into until that is over, even if they are
/// freed before. A store without pins pays one load. Thread-safe.
template <class Place>
class device_pins {
public:
    /// Returns whether any block is pinned. It is exact for a block that the caller may free, because then nobody
    /// is just pinning it.
    bool any() const noexcept { return count_.load(std::memory_order_acquire) != 0; }

    /// Adds a pin. Throws std::bad_alloc.
    void hold(std::uint64_t id) {
        std::scoped_lock const guard(mutex_);
        ++pins_[id].count;
        count_.store(pins_.size(), std::memory_order_release);
    }

    /// Notes that a block was freed. Returns true if it is pinned; its place goes with the last pin.
    bool defer(std::uint64_t id, Place const& p) noexcept {
        std::scoped_lock const guard(mutex_);
        auto const             i = pins_.find(id);
        if (i == pins_.end()) return false;
        i->second.freed = true;
        i->second.place = p;
        return true;
    }

    /// Removes a pin. Returns true if it was the last of a block that was freed; `p` is then the block's place.
    bool drop(std::uint64_t id, Place& p) noexcept {
        std::scoped_lock const guard(mutex_);
        auto const             i = pins_.find(id);
        if (--i->second.count != 0) return false;
        bool const freed = i->second.freed;
        if (freed) p = i->second.place;
        pins_.erase(i);
        count_.store(pins_.size(), std::memory_order_release);
        return freed;
    }

private:
    struct pin {
        std::size_t count = 0;
        bool        freed = false;
        Place       place{};
    };

    std::mutex                             mutex_;
    std::unordered_map<std::uint64_t, pin> pins_;
    std::atomic<std::size_t>               count_{0};
};

/// A part of a block, as a device knows it.
template <class Device>
struct device_part {
    typename Device::memory memory;
    std::size_t             offset;
};

/// State that a device_store shares with the views of its blocks, so that it outlives both.
template <class Device>
class device_core {
public:
    using place = device_place<Device>;
    using part  = device_part<Device>;

    device_core(std::shared_ptr<Device> d, device_store_options const& o) noexcept
        : device_(std::move(d)), bytes_(o.capacity), space_(*device_, o) {}

    /// Frees what is still live. There are no views, because a view shares this.
    ~device_core() {
        blocks_.for_each([&](std::uint64_t, place const& p) { static_cast<void>(space_.put({&p, 1})); });
    }
    device_core(device_core const&)            = delete;
    device_core& operator=(device_core const&) = delete;

    result<block> allocate(std::size_t bytes, std::size_t alignment) noexcept {
        if (!bytes_.add(bytes)) return make_error_code(errc::store_full);
        result<place> const p = space_.take(bytes, alignment);
        if (p) {
            if (std::uint64_t const id = blocks_.insert(*p)) return block{id, bytes};
            static_cast<void>(space_.put({&*p, 1}));
        }
        bytes_.take(bytes);
        return p ? make_error_code(errc::memory_full) : p.error();
    }

    result<void> deallocate(std::span<block const> many) noexcept {
        bool         all_lived = true;
        result<void> outcome{};
        while (!many.empty()) {
            std::array<place, most_at_once> freed;

            auto const  some  = many.first(std::min(many.size(), most_at_once));
            std::size_t lived = 0, unpinned = 0, bytes = 0;
            if (!pins_.any()) {
                lived = unpinned = blocks_.erase(some, freed);
                for (place const& p : std::span(freed).first(lived)) bytes += p.bytes;
            } else {  // one by one, because the places of pinned blocks stay
                for (block const& b : some) {
                    place p;
                    if (!find(b, p) || !blocks_.erase(b.id, p)) continue;
                    ++lived;
                    bytes += p.bytes;
                    if (!pins_.defer(b.id, p)) freed[unpinned++] = p;
                }
            }
            result<void> const done = space_.put(std::span(freed).first(unpinned));
            bytes_.take(bytes);
            if (!done && outcome) outcome = done;
            if (lived != some.size()) all_lived = false;
            many = many.subspan(some.size());
        }
        if (!outcome) return outcome;
        if (!all_lived) return make_error_code(errc::no_such_block);
        return {};
    }

    result<part> part_of(block b, std::size_t offset, std::size_t n) const noexcept {
        place p;
        if (!find(b, p)) return make_error_code(errc::no_such_block);
        if (offset > p.bytes || n > p.bytes - offset) return make_error_code(errc::out_of_range);
        return part{p.chunk->memory, p.offset + offset};
    }

    /// Pins a block until unpin(), and returns what kernels take. Errors: no_such_block, memory_full, or what the
    /// driver says; the block is not pinned then.
    result<typename Device::native_type> pin(block b) noexcept {
        if (!memory_lasts([&] { pins_.hold(b.id); })) return make_error_code(errc::memory_full);
        result<part> const at = part_of(b, 0, b.bytes);
        if (!at) {
            unpin(b.id);
            return at.error();
        }
        auto const native = device_->view(at->memory, at->offset, std::max<std::size_t>(b.bytes, 1));
        if (!native) unpin(b.id);
        return native;
    }

    /// Removes a pin. If memory goes back with it, an error of the driver is dropped: the memory is gone from here
    /// either way.
    void unpin(std::uint64_t id) noexcept {
        place p;
        if (pins_.drop(id, p)) static_cast<void>(space_.put({&p, 1}));
    }

    Device&                        device() const noexcept { return *device_; }
    std::shared_ptr<Device> const& shared_device() const noexcept { return device_; }
    device_space<Device>&          space() noexcept { return space_; }

    store_usage usage() const noexcept { return {bytes_.used(), blocks_.size(), bytes_.most()}; }

private:
    static constexpr std::size_t most_at_once = 128;

    bool find(block b, place& p) const noexcept { return blocks_.find(b.id, p) && p.bytes == b.bytes; }

    std::shared_ptr<Device> const device_;
    byte_limit                    bytes_;
    device_space<Device>          space_;
    block_table<place>            blocks_;
    device_pins<place>            pins_;
};

}  // namespace tenure::detail

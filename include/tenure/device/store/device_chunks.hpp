// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include <tenure/detail/base/os.hpp>
#include <tenure/detail/space/extent_pool.hpp>
#include <tenure/error.hpp>
#include <tenure/result.hpp>

namespace tenure {

/// Says how a device_store takes memory from its device.
struct device_store_options {
    /// The most bytes in live blocks, as asked for; 0: what the device gives.
    std::size_t capacity = 0;

    /// The most bytes that are asked of the driver at once for blocks to share. A block above a quarter of it has
    /// an allocation of its own. The first shared allocation is 4 MiB, and each next is as large as all before, up
    /// to this.
    std::size_t chunk_bytes = std::size_t{64} << 20;

    /// The most bytes in shared allocations without live blocks that stay for the next blocks.
    std::size_t keep_idle = std::size_t{64} << 20;
};

namespace detail {

/// One allocation of a device's driver. As many addresses of this process are reserved for it and never touched:
/// they stand for its bytes in pools that are made for memory with addresses.
template <class Device>
struct device_chunk {
    typename Device::memory memory{};
    std::byte*              shadow = nullptr;  ///< null: the chunk is one block's own
    std::size_t             bytes  = 0;
    std::size_t             used   = 0;        ///< bytes of ranges that are taken; under the pool's lock
    device_chunk*           next   = nullptr;  ///< in a list of chunks to be freed
};

/// Bytes in a chunk; none if there is no chunk.
template <class Device>
struct device_range {
    device_chunk<Device>* chunk  = nullptr;
    std::size_t           offset = 0;
    std::size_t           bytes  = 0;
};

/// Cuts ranges of device memory from chunks, each from the smallest free range that fits. The first chunk is
/// small, each next as large as all before, up to a limit. A chunk in which nothing is left goes back to the
/// driver, except for some that are kept for the next ranges.
///
/// Thread-safe: one mutex, never held across a call of the driver. Freeing allocates nothing. O(log n).
template <class Device>
class device_chunks {
public:
    using chunk = device_chunk<Device>;
    using range = device_range<Device>;

    /// The largest alignment of a range.
    static constexpr std::size_t alignment = std::size_t{64} << 10;

    device_chunks(Device& d, device_store_options const& o) noexcept : device_(d), options_(o) {}
    ~device_chunks() { static_cast<void>(trim()); }
    device_chunks(device_chunks const&)            = delete;
    device_chunks& operator=(device_chunks const&) = delete;

    /// Returns whether take() may be asked for that: up to a quarter of a chunk, at a multiple of `align`, which
    /// is at most `alignment`.
    bool fits(std::size_t bytes, std::size_t align) const noexcept {
        return bytes <= options_.chunk_bytes / 4 && align <= alignment;
    }

    /// Takes a range of whole pages from a chunk. Errors: memory_full, or what the driver says.
    result<range> take(std::size_t bytes, std::size_t align) noexcept {
        bytes             = (bytes + grain - 1) / grain * grain;
        std::size_t total = 0;
        {
            std::scoped_lock const guard(mutex_);
            if (!pool_.prepare()) return make_error_code(errc::memory_full);
            extent_in_file const e = pool_.take(free_kind::warm, bytes, std::max(align, grain));
            if (e.bytes) return taken(e);
            total = total_;
        }
        result<chunk*> const made = grow(bytes, total);
        if (!made) return made.error();
        {
            std::scoped_lock const guard(mutex_);
            if (pool_.prepare() && memory_lasts([&] { chunks_.reserve(chunks_.size() + 1); })) {
                add(**made);
                extent_in_file const e{place_of(**made), bytes};
                pool_.take(e);
                return taken(e);
            }
        }
        static_cast<void>(free_all(*made));  // no other thread knows the chunk yet
        return make_error_code(errc::memory_full);
    }

    /// Takes memory of its own, beside the chunks. Errors: memory_full, or what the driver says.
    result<range> take_whole(std::size_t bytes, std::size_t align) noexcept {
        result<chunk*> const c = make(bytes, align);
        if (!c) return c.error();
        return range{*c, 0, bytes};
    }

    /// Takes back what take() and take_whole() returned, in any order, under one lock. Adds chunks that go with
    /// that to `idle`, for free_all().
    template <class Ranges>
    void put(Ranges const& ranges, chunk*& idle) noexcept {
        std::scoped_lock const guard(mutex_);
        for (range const& r : ranges) {
            if (!r.chunk->shadow) {
                r.chunk->next = idle;
                idle          = r.chunk;
                continue;
            }
            std::size_t const bytes = (r.bytes + grain - 1) / grain * grain;
            pool_.put({place_of(*r.chunk) + r.offset, bytes}, free_kind::warm);
            r.chunk->used -= bytes;
            if (r.chunk->used != 0) continue;
            if (idle_ + r.chunk->bytes <= options_.keep_idle) idle_ += r.chunk->bytes;
            else remove(*r.chunk, idle);
        }
    }

    /// Gives chunks back to the driver, with no lock held, and returns its first error. Chunks are forgotten even
    /// then, because the driver will not take them again. A lost device is no error here: what it had is gone.
    result<void> free_all(chunk* idle) noexcept {
        result<void> outcome{};
        while (chunk* const c = idle) {
            idle                     = c->next;
            result<void> const freed = device_.free(c->memory);
            if (!freed && outcome && freed.error() != errc::device_unavailable) outcome = freed;
            if (c->shadow) give_back(c->shadow, c->bytes + page_bytes());
            delete c;
        }
        return outcome;
    }

    /// Gives back all chunks in which nothing is taken. Errors: what the driver says.
    result<void> trim() noexcept {
        chunk* idle = nullptr;
        {
            std::scoped_lock const guard(mutex_);
            for (std::size_t i = chunks_.size(); i-- != 0;) {
                chunk& c = *chunks_[i];
                if (c.used != 0) continue;
                idle_ -= c.bytes;
                remove(c, idle);
            }
        }
        return free_all(idle);
    }

private:
    static constexpr std::size_t grain = 4096;

    static std::uint64_t place_of(chunk const& c) noexcept { return reinterpret_cast<std::uintptr_t>(c.shadow); }

    /// Returns an iterator to the first chunk that begins after `place`. Call it under the lock.
    auto after(std::uint64_t place) noexcept {
        return std::ranges::upper_bound(chunks_, place, {}, [](chunk const* c) { return place_of(*c); });
    }

    /// Returns what was cut from the pool as a range of its chunk. Call it under the lock.
    range taken(extent_in_file e) noexcept {
        chunk& c = **std::prev(after(e.offset));
        if (c.used == 0) idle_ -= c.bytes;
        c.used += e.bytes;
        return {&c, static_cast<std::size_t>(e.offset - place_of(c)), static_cast<std::size_t>(e.bytes)};
    }

    /// Adds a chunk. Call it under the lock; the pool is prepared, and there is room in chunks_.
    void add(chunk& c) noexcept {
        chunks_.insert(after(place_of(c)), &c);
        total_ += c.bytes;
        idle_ += c.bytes;
        if (gone_ != 0) --gone_;  // the pool still counts a removed chunk as taken
        else pool_.split();
        pool_.put({place_of(c), c.bytes}, free_kind::warm);
    }

    /// Removes a chunk of which nothing is taken. Call it under the lock.
    void remove(chunk& c, chunk*& idle) noexcept {
        pool_.take(extent_in_file{place_of(c), c.bytes});
        ++gone_;
        chunks_.erase(std::prev(after(place_of(c))));
        total_ -= c.bytes;
        c.next = idle;
        idle   = &c;
    }

    /// Makes a chunk as large as `total`, and with at least `least` bytes, which the pool does not know yet. If the
    /// device is short of memory, idle chunks go back first, and the chunk is smaller.
    result<chunk*> grow(std::size_t least, std::size_t total) noexcept {
        constexpr std::size_t first = std::size_t{4} << 20;
        std::size_t const     most  = options_.chunk_bytes;
        least                       = (least + alignment - 1) / alignment * alignment;
        std::size_t bytes           = std::max(std::clamp(total, std::min(first, most), most), least);
        for (;;) {
            bytes                     = (bytes + alignment - 1) / alignment * alignment;
            result<chunk*> const made = make_shadowed(bytes);
            if (made || bytes <= least || made.error() != errc::store_full) return made;
            bytes = std::max(bytes / 2, least);
        }
    }

    result<chunk*> make_shadowed(std::size_t bytes) noexcept {
        // A page more, so that no two chunks touch, and no free range lies in two.
        void* const shadow = reserve_aligned(bytes + page_bytes(), alignment);
        if (!shadow) return make_error_code(errc::memory_full);
        result<chunk*> const made = make(bytes, alignment);
        if (made) (*made)->shadow = static_cast<std::byte*>(shadow);
        else give_back(shadow, bytes + page_bytes());
        return made;
    }

    result<chunk*> make(std::size_t bytes, std::size_t align) noexcept {
        std::unique_ptr<chunk> c(new (std::nothrow) chunk);
        if (!c) return make_error_code(errc::memory_full);
        auto memory = device_.allocate(bytes, align);
        if (!memory && memory.error() == errc::store_full) {
            static_cast<void>(trim());
            memory = device_.allocate(bytes, align);
        }
        if (!memory) return memory.error();
        c->memory = *memory;
        c->bytes  = bytes;
        return c.release();
    }

    Device&                    device_;
    device_store_options const options_;
    std::mutex                 mutex_;
    extent_pool                pool_{0};
    std::vector<chunk*>        chunks_;     ///< ordered by place
    std::size_t                total_ = 0;  ///< bytes in chunks_
    std::size_t                idle_  = 0;  ///< of these, in chunks of which nothing is taken
    std::size_t                gone_  = 0;  ///< removed chunks that the pool counts as taken
};

}  // namespace detail
}  // namespace tenure

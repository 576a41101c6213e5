// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <type_traits>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/fork_list.hpp>
#include <tenure/detail/base/memory_tools.hpp>
#include <tenure/detail/base/os.hpp>
#include <tenure/detail/base/racing_copy.hpp>
#include <tenure/detail/base/zeroed_atomic.hpp>
#include <tenure/store/concept.hpp>

namespace tenure::detail {

/// Number of tables made in this process, plus one.
TENURE_SHARED inline constinit std::atomic<std::uint32_t> block_tables{1};

/// What a store knows of its blocks, by id. An id names a place in a growing table and, in the bits above, how
/// often that place was used. So an id is found in two loads, is never given out twice, and is recognised when it
/// is not live.
///
///     id    63              32 31  29 28            0
///           [ uses + start   ][number][ place        ]
///
/// Each table counts the uses from a start of its own. The starts are spread evenly over 32 bits (Weyl's sequence,
/// by the golden ratio; cf. Knuth, vol. 3, 6.4). So an id of another table of this process is not live here
/// either, until a place was used some 2^32 / tables times.
///
/// Thread-safe. find() takes no lock; the others share one, held for a few loads and stores for each id. A T is
/// trivially copyable, and may be all zeros. Erasing allocates nothing. O(1).
template <class T>
class block_table {
public:
    static constexpr unsigned numbers = 8;

    /// Constructs an empty table. A store may spread its blocks over several tables, told apart by `number`, which
    /// is below `numbers`.
    explicit block_table(unsigned number = 0) noexcept
        : start_(block_tables.fetch_add(1, std::memory_order_relaxed) * 0x9e3779b9u), number_(number) {}
    ~block_table() {
        for (unsigned c = 0; c < chunks; ++c) {
            if (place* const p = chunks_[c].load(std::memory_order_relaxed)) {
                slab_unmapped(p, size_of(c) * sizeof(place));
                give_back(p, size_of(c) * sizeof(place));
            }
        }
    }
    block_table(block_table const&)            = delete;
    block_table& operator=(block_table const&) = delete;

    /// Returns the number of the table that gave out `id`, if the id is one of the caller's.
    static constexpr unsigned number_of(std::uint64_t id) noexcept {
        return static_cast<unsigned>(id >> index_bits) % numbers;
    }

    /// Adds a block and returns its id. Returns 0 if memory is full or there are five hundred million blocks.
    std::uint64_t insert(T const& value) noexcept {
        std::scoped_lock const guard(lock_);
        place*                 p = free_;
        if (p) {
            free_ = p->next_free;
        } else {
            if (touched_ == made_ && !grow()) return 0;
            p        = at(touched_);
            p->index = static_cast<std::uint32_t>(touched_++);
        }
        write_racing(p->kept, value);
        if (name(*p) == 0) ++p->uses;
        std::uint64_t const id = name(*p);
        p->id.store(id, std::memory_order_release);
        live_.store(live_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return id;
    }

    /// Returns whether the block lives, and copies its value. The answer holds as long as no thread frees the
    /// block. If one does meanwhile, the block is found with its value or not at all: never with what its place
    /// holds for the next.
    bool find(std::uint64_t id, T& value) const noexcept {
        place const* const p = live_at(id);
        if (!p) return false;
        value = read_racing(p->kept);  // each word acquired, so that the id is read again after them
        return p->id.load(std::memory_order_acquire) == id;
    }

    /// Returns the block's value in place, or null if the block does not live. For a caller who knows that no
    /// other thread frees the block, or reads what is changed, meanwhile.
    T* find(std::uint64_t id) noexcept {
        place* const p = live_at(id);
        return p ? &p->kept.value : nullptr;
    }

    /// Ends the block's life and hands its value to this caller alone. Returns false if the block did not live.
    bool erase(std::uint64_t id, T& value) noexcept {
        std::scoped_lock const guard(lock_);
        place* const           p = live_at(id);
        if (!p) return false;
        value = take(*p);
        return true;
    }

    /// Ends the life of all blocks in `many` under one lock, and copies their values to the beginning of `values`,
    /// which has room for all of them. Returns how many lived. If a T has `bytes`, a block named with other bytes
    /// counts as not live.
    std::size_t erase(std::span<block const> many, std::span<T> values) noexcept {
        std::scoped_lock const guard(lock_);
        std::size_t            n = 0;
        for (block const& b : many) {
            place* const p = live_at(b.id);
            if (!p || !has_bytes(p->kept.value, b.bytes)) continue;
            values[n++] = take(*p);
        }
        return n;
    }

    /// Returns the number of live blocks. May be a moment old.
    std::size_t size() const noexcept { return live_.load(std::memory_order_relaxed); }

    /// Calls f(id, value&) for each live block, under the table's lock.
    template <class F>
    void for_each(F f) {
        std::scoped_lock const guard(lock_);
        for (std::uint64_t i = 0; i < touched_; ++i) {
            place& p = *at(i);
            if (std::uint64_t const id = p.id.load(std::memory_order_relaxed)) f(id, p.kept.value);
        }
    }

private:
    /// All zeros until its first use.
    struct place {
        zeroed_atomic<std::uint64_t> id;  ///< while the block lives, else 0
        whole_words<T>               kept;
        std::uint32_t                uses;
        std::uint32_t                index;
        place*                       next_free;
    };
    static_assert(std::is_trivially_copyable_v<T>);

    static constexpr unsigned      index_bits = 32 - std::countr_zero(numbers);
    static constexpr std::uint64_t first  = 256;  ///< places in chunk 0; each later one has as many as all before
    static constexpr unsigned      chunks = index_bits - 8 + 1;

    static constexpr unsigned chunk_of(std::uint64_t i) noexcept {
        return i < first ? 0 : static_cast<unsigned>(std::bit_width(i / first));
    }
    static constexpr std::uint64_t begin_of(unsigned c) noexcept { return c == 0 ? 0 : first << (c - 1); }
    static constexpr std::uint64_t size_of(unsigned c) noexcept { return c == 0 ? first : first << (c - 1); }

    place* at(std::uint64_t index) const noexcept {
        unsigned const c = chunk_of(index);
        place* const   p = chunks_[c].load(std::memory_order_acquire);
        return p ? p + (index - begin_of(c)) : nullptr;
    }

    place* live_at(std::uint64_t id) const noexcept {
        place* const p = at(id & ((std::uint64_t{1} << index_bits) - 1));
        return p && id != 0 && p->id.load(std::memory_order_acquire) == id ? p : nullptr;
    }

    std::uint64_t name(place const& p) const noexcept {
        std::uint32_t const generation = start_ + p.uses;  // wraps
        return std::uint64_t{generation} << 32 | std::uint64_t{number_} << index_bits | p.index;
    }

    static bool has_bytes(T const& value, std::size_t bytes) noexcept {
        if constexpr (requires { value.bytes == bytes; }) return value.bytes == bytes;
        else return true;
    }

    /// Ends the life of a live block and returns its value. The caller holds the lock.
    T take(place& p) noexcept {
        p.id.store(0, std::memory_order_release);
        live_.store(live_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
        if (++p.uses != 0) {  // otherwise the place's ids are used up
            p.next_free = free_;
            free_       = &p;
        }
        return p.kept.value;
    }

    /// Adds a chunk. It is zero-filled and takes memory only where it is touched, so that the lock is not held
    /// longer for a larger table. Returns false if memory or the table is full.
    bool grow() noexcept {
        unsigned const c = chunk_of(made_);
        if (c >= chunks) return false;
        std::size_t const bytes = size_of(c) * sizeof(place);
        void* const       more  = reserve(bytes, access::read_write);
        if (!more) return false;
        slab_mapped(more, bytes);  // a T may hold the only pointer to memory on the heap
        made_ += size_of(c);
        chunks_[c].store(static_cast<place*>(more), std::memory_order_release);
        return true;
    }

    std::uint32_t const      start_;
    unsigned const           number_;
    mutable fork_mutex       lock_;
    place*                   free_    = nullptr;
    std::uint64_t            touched_ = 0;  ///< places that were ever used
    std::uint64_t            made_    = 0;
    std::atomic<std::size_t> live_{0};  ///< changed under the lock
    std::atomic<place*>      chunks_[chunks]{};
};

}  // namespace tenure::detail

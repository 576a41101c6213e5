// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

namespace tenure::detail {

/// What a store knows of its blocks, by id: a place in a growing table and, above it, how often that place was
/// used. So an id is found in two loads, is never given out twice, and one that is not live is known as such.
///
/// Thread-safe; a T is trivially copyable. Freeing allocates nothing. O(1).
template <class T>
class block_table {
public:
    block_table() = default;
    ~block_table() {
        for (auto& c : chunks_) delete[] c.load(std::memory_order_relaxed);
    }
    block_table(block_table const&)            = delete;
    block_table& operator=(block_table const&) = delete;

    /// The new block's id; 0: no memory, or four thousand million blocks.
    std::uint64_t insert(T const& value) noexcept {
        std::scoped_lock const guard(lock_);
        if (!free_ && !grow()) return 0;
        place& p = *free_;
        free_    = p.next_free;
        p.value  = value;
        p.id.store(p.generation << index_bits | p.index, std::memory_order_release);
        ++live_;
        return p.id.load(std::memory_order_relaxed);
    }

    /// Whether the block lives, and what it is. Holds as long as nobody frees it.
    bool find(std::uint64_t id, T& value) const noexcept {
        place const* const p = at(id);
        if (!p || p->id.load(std::memory_order_acquire) != id) return false;
        value = p->value;
        return p->id.load(std::memory_order_acquire) == id;
    }

    /// As find, in place: for who knows that nobody frees the block or looks at what is changed meanwhile.
    T* find(std::uint64_t id) noexcept {
        place* const p = at(id);
        return p && p->id.load(std::memory_order_acquire) == id ? &p->value : nullptr;
    }

    /// The block lives no more, and the caller, alone, has what it was. False: it did not live.
    bool erase(std::uint64_t id, T& value) noexcept {
        std::scoped_lock const guard(lock_);
        place* const           p = at(id);
        if (!p || p->id.load(std::memory_order_relaxed) != id) return false;
        value = p->value;
        p->id.store(0, std::memory_order_release);
        --live_;
        if (++p->generation >> (64 - index_bits) != 0) return true;  // its ids are used up
        p->next_free = free_;
        free_        = p;
        return true;
    }

    std::size_t size() const noexcept {
        std::scoped_lock const guard(lock_);
        return live_;
    }

    /// Calls f(id, value&) for each live block, under the table's lock.
    template <class F>
    void for_each(F f) {
        std::scoped_lock const guard(lock_);
        for (std::uint64_t i = 0; i < made_; ++i) {
            place& p = *at(i);
            if (std::uint64_t const id = p.id.load(std::memory_order_relaxed)) f(id, p.value);
        }
    }

private:
    struct place {
        std::atomic<std::uint64_t> id{0};  ///< while the block lives
        T                          value{};
        std::uint64_t              generation = 1;
        place*                     next_free  = nullptr;
        std::uint64_t              index      = 0;
    };

    static constexpr unsigned      index_bits = 32;
    static constexpr std::uint64_t first =
        256;  ///< places in the first chunk; each next one is as large as all before
    static constexpr unsigned chunks = 25;

    static constexpr unsigned chunk_of(std::uint64_t i) noexcept {
        return i < first ? 0 : static_cast<unsigned>(64 - __builtin_clzll(i / first));
    }
    static constexpr std::uint64_t begin_of(unsigned c) noexcept { return c == 0 ? 0 : first << (c - 1); }
    static constexpr std::uint64_t size_of(unsigned c) noexcept { return c == 0 ? first : first << (c - 1); }

    place* at(std::uint64_t id) const noexcept {
        std::uint64_t const i = id & ((std::uint64_t{1} << index_bits) - 1);
        unsigned const      c = chunk_of(i);
        place* const        p = c < chunks ? chunks_[c].load(std::memory_order_acquire) : nullptr;
        return p ? p + (i - begin_of(c)) : nullptr;
    }

    bool grow() noexcept {
        unsigned const c = chunk_of(made_);
        if (c >= chunks) return false;
        auto* const more = new (std::nothrow) place[size_of(c)];
        if (!more) return false;
        for (std::uint64_t i = size_of(c); i-- > 0;) {
            more[i].index     = made_ + i;
            more[i].next_free = free_;
            free_             = more + i;
        }
        made_ += size_of(c);
        chunks_[c].store(more, std::memory_order_release);
        return true;
    }

    mutable std::mutex  lock_;
    place*              free_ = nullptr;
    std::uint64_t       made_ = 0;
    std::size_t         live_ = 0;
    std::atomic<place*> chunks_[chunks]{};
};

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>

#include <tenure/detail/base/fork_list.hpp>
#include <tenure/raise.hpp>
#include <tenure/store/concept.hpp>

namespace tenure::detail {

/// Where an adaptor writes down the upstream's names of the blocks that it will free, in order to free them in one
/// call. Freeing must not allocate, so the room is made with the blocks: twice what all of them need.
///
/// Threads that free at the same time take ranges side by side, first fit. Twice the room is enough for two
/// threads, whatever they free and in whatever order. With more threads the free room may lie in pieces, and a
/// range may be shorter than asked for. Thread-safe. 32 to 64 bytes a block.
class gather_space {
    using array = std::shared_ptr<block[]>;

public:
    gather_space()                               = default;
    gather_space(gather_space const&)            = delete;
    gather_space& operator=(gather_space const&) = delete;

    /// Makes room for that many blocks in all. Returns false if memory is full.
    bool reserve(std::size_t blocks) noexcept {
        std::size_t n = 0;
        {
            std::scoped_lock const guard(lock_);
            if (2 * blocks <= size_) return true;
            n = std::bit_ceil(std::max<std::size_t>(2 * blocks, least));
        }
        array wider = make(n);
        if (!wider) return false;
        std::scoped_lock const guard(lock_);
        if (n <= size_) return true;
        size_ = n;
        space_.swap(wider);  // ranges in the old array keep it
        return true;
    }

    /// A part of the room, held while this lives: `want` blocks, or the longest free range. That is empty only if
    /// other ranges take all the room, as when they hold the same blocks.
    class range {
    public:
        range(gather_space& space, std::size_t want) noexcept : owner_(space) {
            std::scoped_lock const guard(space.lock_);
            space_            = space.space_;
            range**     best  = nullptr;
            std::size_t begin = 0;
            range**     at    = &space.taken_;
            while (*at && (*at)->space_ != space_) at = &(*at)->next_;  // ranges in an older array come first
            for (;; at = &(*at)->next_) {
                std::size_t const end = *at ? (*at)->begin_ : space.size_;
                if (end - begin > size_) {
                    best   = at;
                    begin_ = begin;
                    size_  = std::min(end - begin, want);
                }
                if (size_ == want || !*at) break;
                begin = (*at)->begin_ + (*at)->size_;
            }
            if (!best) best = at, begin_ = begin;  // nothing was wanted, or nothing is free
            next_ = *best;
            *best = this;
        }
        ~range() {
            std::scoped_lock const guard(owner_.lock_);
            range**                at = &owner_.taken_;
            while (*at != this) at = &(*at)->next_;
            *at = next_;
        }
        range(range const&)            = delete;
        range& operator=(range const&) = delete;

        std::span<block> blocks() const noexcept { return {space_.get() + begin_, size_}; }

    private:
        gather_space& owner_;
        array         space_;
        std::size_t   begin_ = 0, size_ = 0;
        range*        next_ = nullptr;
        void const*   by_   = this_threads_name();

        friend gather_space;
    };

private:
    static constexpr std::size_t least = 64;

    static array make(std::size_t n) noexcept {
        array made;
        return memory_lasts([&] { made = std::make_shared<block[]>(n); }) ? made : nullptr;
    }

    /// Drops other threads' ranges in a forked child: they lie on stacks that new threads may get.
    static void forget_others(void* self) noexcept {
        range** at = &static_cast<gather_space*>(self)->taken_;
        while (range* const r = *at)
            if (r->by_ == this_threads_name()) at = &r->next_;
            else *at = r->next_;
    }

    array       space_;
    std::size_t size_  = 0;
    range*      taken_ = nullptr;  ///< first those in older arrays, then by where they begin
    fork_mutex  lock_{this, &forget_others};
};

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenure/detail/base/fork_list.hpp>
#include <tenure/detail/blocks/block_ledger.hpp>
#include <tenure/raise.hpp>
#include <tenure/store/adaptor.hpp>
#include <tenure/store/counted/figures.hpp>

namespace tenure {

/// A store that counts the calls made to it. Blocks, capabilities and usage() are the upstream's; figures() counts
/// what passed through here. A block of a durable upstream counts as made once it is found.
///
/// Thread-safe. Beyond the upstream's own cost, a call takes some relaxed additions; allocate() and find() a short
/// lock and a small allocation; deallocate() a short lock for each block. A failed deallocate() asks the upstream
/// whether each block is still there.
template <backing_store Upstream>
class counted_store : public detail::passing_store<Upstream, counted_store<Upstream>> {
    using base = detail::passing_store<Upstream, counted_store>;
    friend base;

public:
    using base::traits;
    using base::upstream;

    /// `over` must not be null.
    explicit counted_store(std::shared_ptr<Upstream> over) noexcept : base(std::move(over)) {}

    result<block> allocate(std::size_t bytes, std::size_t alignment) {
        return entered(store_operation::allocate, [&] { return base::allocate(bytes, alignment); });
    }
    result<block> find(std::string_view name)
        requires(traits.durable)
    {
        return entered(store_operation::find, [&] { return base::find(name); });
    }

    result<void> deallocate(std::span<block const> many) noexcept {
        result<void> const outcome = base::deallocate(many);
        std::size_t        bytes = 0, blocks = 0;
        ledger_.settle(*upstream(), many, outcome, [&](std::size_t n) { bytes += n, ++blocks; });
        add(bytes_freed_, bytes);
        add(blocks_freed_, blocks);
        live_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
        live_blocks_.fetch_sub(blocks, std::memory_order_relaxed);
        return outcome;
    }

    /// Returns figures: exact when the store is at rest; else one may be slightly older than another.
    counted_figures figures() const noexcept {
        std::scoped_lock const guard(lock_);
        return collect();
    }

    /// Begins to count a section, which pop() ends. Sections nest: what an inner one counts, the outer ones count,
    /// too, and figures() counts everything. They are the store's and not a thread's, so threads that use them at
    /// the same time must agree who pops what. A call of another thread that is under way at a push() or pop()
    /// may count on either side. Throws std::bad_alloc. Cost: a kilobyte, and what figures() costs.
    void push() {
        std::scoped_lock const guard(lock_);
        counted_figures        now = collect();
        now.peak_bytes             = get(peak_bytes_);
        now.peak_blocks            = get(peak_blocks_);
        pushed_.push_back(now);
        raise_to(most_bytes_, peak_bytes_.exchange(get(live_bytes_), std::memory_order_relaxed));
        raise_to(most_blocks_, peak_blocks_.exchange(get(live_blocks_), std::memory_order_relaxed));
    }

    /// Returns what passed through since the last push() that was not popped. Live is what was made since and not
    /// freed, or 0 if more was freed than made; peaks are above what was live at the push. Throws std::logic_error
    /// if nothing is pushed.
    counted_figures pop() {
        std::scoped_lock const guard(lock_);
        if (pushed_.empty()) raise(std::logic_error("counted_store: pop() without a push() before it"));
        counted_figures const begin = pushed_.back();
        counted_figures       now   = collect();
        now.peak_bytes              = get(peak_bytes_);
        now.peak_blocks             = get(peak_blocks_);
        pushed_.pop_back();
        raise_to(peak_bytes_, begin.peak_bytes);
        raise_to(peak_blocks_, begin.peak_blocks);
        return now.since(begin);
    }

    std::string describe() const { return "counted " + detail::name_of(*upstream()); }

private:
    using counter = std::atomic<std::uint64_t>;
    struct operation {
        counter calls{0}, errors{0}, moved{0};
    };

    /// Called under the lock.
    counted_figures collect() const noexcept {
        counted_figures f;
        f.bytes        = get(live_bytes_);
        f.blocks       = get(live_blocks_);
        f.peak_bytes   = std::max(get(peak_bytes_), get(most_bytes_));
        f.peak_blocks  = std::max(get(peak_blocks_), get(most_blocks_));
        f.bytes_made   = get(bytes_made_);
        f.blocks_made  = get(blocks_made_);
        f.bytes_freed  = get(bytes_freed_);
        f.blocks_freed = get(blocks_freed_);
        for (std::size_t i = 0; i < f.sizes.size(); ++i) f.sizes[i] = get(sizes_[i]);
        for (std::size_t i = 0; i < std::size(f.operations); ++i) {
            auto const& [name, calls, bytes] = f.operations[i];
            f.*calls                         = {get(operations_[i].calls), get(operations_[i].errors)};
            if (bytes) f.*bytes = get(operations_[i].moved);
        }
        return f;
    }

    operation& of(store_operation on) noexcept { return operations_[static_cast<std::size_t>(on) - 1]; }

    static std::uint64_t get(counter const& c) noexcept { return c.load(std::memory_order_relaxed); }
    static void          add(counter& c, std::uint64_t n) noexcept { c.fetch_add(n, std::memory_order_relaxed); }
    static void          add_live(counter& live, counter& peak, std::uint64_t n) noexcept {
        raise_to(peak, live.fetch_add(n, std::memory_order_relaxed) + n);
    }
    static void raise_to(counter& peak, std::uint64_t now) noexcept {
        std::uint64_t most = get(peak);
        while (most < now && !peak.compare_exchange_weak(most, now, std::memory_order_relaxed)) {}
    }

    template <class F>
    auto whole(store_operation on, F call) {
        auto outcome = call();
        add(of(on).calls, 1);
        if (!outcome) add(of(on).errors, 1);
        return outcome;
    }
    template <class F>
    result<void> part(store_operation on, std::size_t size, bool, F call) {
        result<void> const outcome = whole(on, [&] { return call(size); });
        if (outcome) add(of(on).moved, size);
        return outcome;
    }

    /// Calls `call` with room to enter the block that it returns.
    template <class F>
    result<block> entered(store_operation on, F call) {
        detail::block_ledger::room place;
        if (!place) return whole(on, [] { return result<block>(make_error_code(errc::memory_full)); });
        result<block> const b = call();
        if (b) enter(std::move(place), *b);
        return b;
    }

    void enter(detail::block_ledger::room place, block b) noexcept {
        if (!ledger_.enter(std::move(place), b)) return;  // found, and counted before
        add_live(live_bytes_, peak_bytes_, b.bytes);
        add_live(live_blocks_, peak_blocks_, 1);
        add(bytes_made_, b.bytes);
        add(blocks_made_, 1);
        add(sizes_[static_cast<std::size_t>(std::bit_width(b.bytes))], 1);
    }

    counter              live_bytes_{0}, live_blocks_{0};
    counter              peak_bytes_{0}, peak_blocks_{0};  ///< since the last push
    counter              most_bytes_{0}, most_blocks_{0};  ///< the peaks before a push
    counter              bytes_made_{0}, blocks_made_{0}, bytes_freed_{0}, blocks_freed_{0};
    operation            operations_[std::size(counted_figures::operations)];
    detail::block_ledger ledger_;

    std::array<counter, counted_figures{}.sizes.size()> sizes_{};

    mutable detail::fork_mutex   lock_;    ///< guards pushed_, and what goes with a push or pop
    std::vector<counted_figures> pushed_;  ///< the figures at each push, with peaks since the one before
};

static_assert(backing_store<counted_store<any_store>>);

}  // namespace tenure

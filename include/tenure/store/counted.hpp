// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <tenure/detail/blocks/block_ledger.hpp>
#include <tenure/store/adaptor.hpp>

namespace tenure {

/// Calls of one operation of a counted_store.
struct counted_calls {
    std::uint64_t calls  = 0;
    std::uint64_t errors = 0;  ///< calls that returned an error

    friend bool operator==(counted_calls const&, counted_calls const&) = default;
};

/// What passed through a counted_store. made = live + freed, in bytes and in blocks.
struct counted_figures {
    std::uint64_t bytes = 0, blocks = 0;            ///< live
    std::uint64_t peak_bytes = 0, peak_blocks = 0;  ///< the most that were live at once
    std::uint64_t bytes_made = 0, blocks_made = 0;
    std::uint64_t bytes_freed = 0, blocks_freed = 0;
    std::uint64_t bytes_read = 0, bytes_written = 0, bytes_copied = 0;  ///< by calls without an error

    counted_calls allocate, deallocate, read, write, address, keep, find, sync, close, copy;

    /// Blocks made, by size: first those of 0 bytes; then entry n has those from 2^(n-1) to 2^n - 1.
    std::array<std::uint64_t, std::numeric_limits<std::size_t>::digits + 1> sizes{};

    /// Returns text: a line for each kind of figure, operation and size that occurred.
    std::string to_text() const {
        std::string out = "live " + both(bytes, blocks) + ", at most " + both(peak_bytes, peak_blocks) + "\nmade " +
                          both(bytes_made, blocks_made) + ", freed " + both(bytes_freed, blocks_freed) + "\n";
        for (operation const& o : operations) {
            counted_calls const& c = this->*o.calls;
            if (!c.calls) continue;
            out.append(o.name).append(": ").append(std::to_string(c.calls)).append(" calls");
            if (o.bytes && this->*o.bytes) out.append(", ").append(std::to_string(this->*o.bytes)).append(" bytes");
            if (c.errors) out.append(", ").append(std::to_string(c.errors)).append(" errors");
            out += "\n";
        }
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            if (!sizes[i]) continue;
            out += i == 0 ? "of 0 bytes" : "from " + std::to_string(std::uint64_t{1} << (i - 1)) + " bytes";
            out += ": " + std::to_string(sizes[i]) + "\n";
        }
        return out;
    }

private:
    template <backing_store Upstream>
    friend class counted_store;

    struct operation {
        char const*   name;
        counted_calls counted_figures::* calls;
        std::uint64_t counted_figures::* bytes = nullptr;
    };
    static operation const operations[10];  ///< in the order of store_operation

    static std::string both(std::uint64_t n, std::uint64_t in) {
        return std::to_string(n) + " bytes in " + std::to_string(in) + " blocks";
    }
};

inline constexpr counted_figures::operation counted_figures::operations[10] = {
    {"allocate", &counted_figures::allocate},
    {"deallocate", &counted_figures::deallocate},
    {"read", &counted_figures::read, &counted_figures::bytes_read},
    {"write", &counted_figures::write, &counted_figures::bytes_written},
    {"address", &counted_figures::address},
    {"keep", &counted_figures::keep},
    {"find", &counted_figures::find},
    {"sync", &counted_figures::sync},
    {"close", &counted_figures::close},
    {"copy", &counted_figures::copy, &counted_figures::bytes_copied},
};

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
        counted_figures f;
        f.bytes        = get(live_bytes_);
        f.blocks       = get(live_blocks_);
        f.peak_bytes   = get(peak_bytes_);
        f.peak_blocks  = get(peak_blocks_);
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

    std::string describe() const { return "counted " + detail::name_of(*upstream()); }

private:
    using counter = std::atomic<std::uint64_t>;
    struct operation {
        counter calls{0}, errors{0}, moved{0};
    };

    operation& of(store_operation on) noexcept { return operations_[static_cast<std::size_t>(on) - 1]; }

    static std::uint64_t get(counter const& c) noexcept { return c.load(std::memory_order_relaxed); }
    static void          add(counter& c, std::uint64_t n) noexcept { c.fetch_add(n, std::memory_order_relaxed); }
    static void          add_live(counter& live, counter& peak, std::uint64_t n) noexcept {
        std::uint64_t const now  = live.fetch_add(n, std::memory_order_relaxed) + n;
        std::uint64_t       most = get(peak);
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

    counter              live_bytes_{0}, live_blocks_{0}, peak_bytes_{0}, peak_blocks_{0};
    counter              bytes_made_{0}, blocks_made_{0}, bytes_freed_{0}, blocks_freed_{0};
    operation            operations_[std::size(counted_figures::operations)];
    detail::block_ledger ledger_;

    std::array<counter, counted_figures{}.sizes.size()> sizes_{};
};

static_assert(backing_store<counted_store<any_store>>);

}  // namespace tenure

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <tenure/detail/blocks/block_ledger.hpp>
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
class counted_store : public store_adaptor<Upstream> {
public:
    using store_adaptor<Upstream>::traits;
    using store_adaptor<Upstream>::upstream;

    /// `over` must not be null.
    explicit counted_store(std::shared_ptr<Upstream> over) noexcept : store_adaptor<Upstream>(std::move(over)) {}

    result<block> allocate(std::size_t bytes, std::size_t alignment) {
        detail::block_ledger::room place;
        if (!place) return counted(allocate_, result<block>(make_error_code(errc::memory_full)));
        result<block> const b = counted(allocate_, upstream()->allocate(bytes, alignment));
        if (b) enter(std::move(place), *b);
        return b;
    }

    result<void> deallocate(std::span<block const> many) noexcept {
        result<void> const outcome = counted(deallocate_, upstream()->deallocate(many));
        std::size_t        bytes = 0, blocks = 0;
        ledger_.settle(*upstream(), many, outcome, [&](std::size_t n) { bytes += n, ++blocks; });
        add(bytes_freed_, bytes);
        add(blocks_freed_, blocks);
        live_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
        live_blocks_.fetch_sub(blocks, std::memory_order_relaxed);
        return outcome;
    }

    result<void> read(block b, std::size_t offset, std::span<std::byte> out) {
        return counted(read_, upstream()->read(b, offset, out), bytes_read_, out.size());
    }
    result<void> write(block b, std::size_t offset, std::span<std::byte const> in) {
        return counted(write_, upstream()->write(b, offset, in), bytes_written_, in.size());
    }
    result<std::byte*> address(block b)
        requires(traits.addressable)
    {
        return counted(address_, upstream()->address(b));
    }
    result<void> keep(block b, std::string_view name)
        requires(traits.durable)
    {
        return counted(keep_, upstream()->keep(b, name));
    }
    result<block> find(std::string_view name)
        requires(traits.durable)
    {
        detail::block_ledger::room place;
        if (!place) return counted(find_, result<block>(make_error_code(errc::memory_full)));
        result<block> const b = counted(find_, upstream()->find(name));
        if (b) enter(std::move(place), *b);
        return b;
    }
    result<void> sync(std::span<block const> many)
        requires(traits.durable)
    {
        return counted(sync_, upstream()->sync(many));
    }
    result<void> close()
        requires(traits.durable)
    {
        return counted(close_, upstream()->close());
    }
    result<void> copy(block from, std::size_t from_offset, block to, std::size_t to_offset, std::size_t bytes)
        requires(traits.copyable)
    {
        return counted(copy_, upstream()->copy(from, from_offset, to, to_offset, bytes), bytes_copied_, bytes);
    }

    /// Returns figures: exact when the store is at rest; else one may be slightly older than another.
    counted_figures figures() const noexcept {
        counted_figures f;
        f.bytes         = get(live_bytes_);
        f.blocks        = get(live_blocks_);
        f.peak_bytes    = get(peak_bytes_);
        f.peak_blocks   = get(peak_blocks_);
        f.bytes_made    = get(bytes_made_);
        f.blocks_made   = get(blocks_made_);
        f.bytes_freed   = get(bytes_freed_);
        f.blocks_freed  = get(blocks_freed_);
        f.bytes_read    = get(bytes_read_);
        f.bytes_written = get(bytes_written_);
        f.bytes_copied  = get(bytes_copied_);
        for (std::size_t i = 0; i < f.sizes.size(); ++i) f.sizes[i] = get(sizes_[i]);
        f.allocate   = get(allocate_);
        f.deallocate = get(deallocate_);
        f.read       = get(read_);
        f.write      = get(write_);
        f.address    = get(address_);
        f.keep       = get(keep_);
        f.find       = get(find_);
        f.sync       = get(sync_);
        f.close      = get(close_);
        f.copy       = get(copy_);
        return f;
    }

    std::string describe() const { return "counted " + detail::name_of(*upstream()); }

private:
    using counter = std::atomic<std::uint64_t>;
    struct operation {
        counter calls{0}, errors{0};
    };

    static std::uint64_t get(counter const& c) noexcept { return c.load(std::memory_order_relaxed); }
    static counted_calls get(operation const& o) noexcept { return {get(o.calls), get(o.errors)}; }
    static void          add(counter& c, std::uint64_t n) noexcept { c.fetch_add(n, std::memory_order_relaxed); }
    static void          add_live(counter& live, counter& peak, std::uint64_t n) noexcept {
        std::uint64_t const now  = live.fetch_add(n, std::memory_order_relaxed) + n;
        std::uint64_t       most = get(peak);
        while (most < now && !peak.compare_exchange_weak(most, now, std::memory_order_relaxed)) {}
    }

    template <class R>
    static R counted(operation& o, R outcome) noexcept {
        add(o.calls, 1);
        if (!outcome) add(o.errors, 1);
        return outcome;
    }
    static result<void> counted(operation& o, result<void> outcome, counter& bytes, std::size_t n) noexcept {
        if (outcome) add(bytes, n);
        return counted(o, std::move(outcome));
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
    counter              bytes_read_{0}, bytes_written_{0}, bytes_copied_{0};
    operation            allocate_, deallocate_, read_, write_, address_, keep_, find_, sync_, close_, copy_;
    detail::block_ledger ledger_;

    std::array<counter, counted_figures{}.sizes.size()> sizes_{};
};

static_assert(backing_store<counted_store<any_store>>);

}  // namespace tenure

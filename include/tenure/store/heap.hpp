// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include <tenure/detail/base/byte_limit.hpp>
#include <tenure/detail/base/clocks.hpp>
#include <tenure/detail/blocks/block_table.hpp>
#include <tenure/detail/space/span_heap.hpp>
#include <tenure/error.hpp>
#include <tenure/result.hpp>
#include <tenure/store/concept.hpp>

namespace tenure {

struct heap_options {
    /// The most bytes in live blocks, as requested; 0: what the system gives.
    std::size_t capacity = 0;

    /// How long memory stays free before it returns to the system, a few MiB at a time, as blocks are freed.
    std::chrono::nanoseconds decay = std::chrono::seconds(5);
};

/// Blocks in this process's memory.
///
/// Blocks up to 1 MiB share 2 MiB spans, on huge pages once a size has several. Freed memory is handed out again
/// as it is, because a process has no other client. A larger block has a mapping of its own: fresh, zero-filled,
/// committed where it is touched. deallocate() unmaps it whatever was mapped over parts of it, so a block of 2 MiB
/// or more may be madvised and remapped by its holder.
///
/// Thread-safe; threads seldom contend. Costs about 40 ns to allocate, 10 to free with many others. Errors:
/// memory_full if the system refuses.
class heap_store {
public:
    static constexpr store_traits traits{.addressable = true, .anonymous = true, .copyable = true};

    explicit heap_store(heap_options const& options = {}) noexcept
        : charged_(options.capacity), heap_(static_cast<std::uint64_t>(options.decay.count())) {}

    /// Frees all live blocks.
    ~heap_store() {
        for (stripe& s : stripes_)
            s.blocks.for_each([&](std::uint64_t, detail::piece const& e) { heap_.put({&e, 1}); });
    }

    heap_store(heap_store const&)            = delete;
    heap_store& operator=(heap_store const&) = delete;

    /// Allocates with any alignment that is a power of two. Contents are zeros or those of earlier blocks; above 1
    /// MiB always zeros.
    result<block> allocate(std::size_t bytes, std::size_t alignment) {
        if (!std::has_single_bit(alignment)) return make_error_code(errc::bad_alignment);
        if (charged_.most() && !charged_.add(bytes)) return make_error_code(errc::store_full);
        unsigned const number = detail::thread_stripe(stripes);
        stripe&        mine   = stripes_[number];
        mine.bytes.fetch_add(bytes, std::memory_order_relaxed);
        detail::piece const e = heap_.take(number, bytes, alignment);
        if (e.address) {
            if (std::uint64_t const id = mine.blocks.insert(e)) return block{id, bytes};
            heap_.put({&e, 1});
        }
        mine.bytes.fetch_sub(bytes, std::memory_order_relaxed);
        refund(bytes);
        return make_error_code(errc::memory_full);
    }

    /// Frees in O(1) a block, with about one lock for a hundred if blocks allocated together are named together.
    result<void> deallocate(std::span<block const> many) noexcept {
        bool all_lived = true;
        while (!many.empty()) {
            unsigned const    number = table_type::number_of(many.front().id);
            std::size_t const n      = run(many, number);

            std::array<detail::piece, most_at_once> freed;

            std::size_t const lived = stripes_[number].blocks.erase(many.first(n), freed);
            std::size_t       bytes = 0;
            for (std::size_t i = 0; i < lived; ++i) bytes += freed[i].bytes;
            heap_.put(std::span(freed).first(lived));
            stripes_[number].bytes.fetch_sub(bytes, std::memory_order_relaxed);
            refund(bytes);
            if (lived != n) all_lived = false;
            many = many.subspan(n);
        }
        heap_.tick();
        if (!all_lived) return make_error_code(errc::no_such_block);
        return {};
    }

    result<std::byte*> address(block b) { return bytes_of(b, 0, 0); }

    result<void> read(block b, std::size_t offset, std::span<std::byte> out) {
        auto const from = bytes_of(b, offset, out.size());
        if (!from) return from.error();
        if (!out.empty()) std::memcpy(out.data(), *from, out.size());
        return {};
    }

    result<void> write(block b, std::size_t offset, std::span<std::byte const> in) {
        auto const to = bytes_of(b, offset, in.size());
        if (!to) return to.error();
        if (!in.empty()) std::memcpy(*to, in.data(), in.size());
        return {};
    }

    result<void> copy(block from, std::size_t from_offset, block to, std::size_t to_offset, std::size_t bytes) {
        auto const source = bytes_of(from, from_offset, bytes);
        if (!source) return source.error();
        auto const target = bytes_of(to, to_offset, bytes);
        if (!target) return target.error();
        if (bytes) std::memcpy(*target, *source, bytes);
        return {};
    }

    store_usage usage() const noexcept {
        store_usage u{.capacity = charged_.most()};
        for (stripe const& s : stripes_) {
            u.bytes += s.bytes.load(std::memory_order_relaxed);
            u.blocks += s.blocks.size();
        }
        return u;
    }

    /// Gives memory in which nothing lives back to the system, at once. Returns the bytes.
    std::size_t trim() noexcept { return heap_.trim(); }

    std::string describe() const { return "heap"; }

private:
    using table_type = detail::block_table<detail::piece>;

    static constexpr unsigned    stripes      = detail::span_heap::stripes;
    static constexpr std::size_t most_at_once = 128;
    static_assert(stripes <= table_type::numbers);

    struct alignas(64) stripe {
        explicit stripe(unsigned number) noexcept : blocks(number) {}

        table_type               blocks;
        std::atomic<std::size_t> bytes{0};
    };

    /// Counts the blocks at the front of `many` that are from one stripe.
    static std::size_t run(std::span<block const> many, unsigned number) noexcept {
        std::size_t n = 1;
        while (n < many.size() && n < most_at_once && table_type::number_of(many[n].id) == number) ++n;
        return n;
    }

    result<std::byte*> bytes_of(block b, std::size_t offset, std::size_t n) const noexcept {
        detail::piece e;
        bool const    lives = stripes_[table_type::number_of(b.id)].blocks.find(b.id, e);
        if (!lives || e.bytes != b.bytes) return make_error_code(errc::no_such_block);
        if (offset > e.bytes || n > e.bytes - offset) return make_error_code(errc::out_of_range);
        return e.address + offset;
    }

    void refund(std::size_t bytes) noexcept {
        if (charged_.most()) charged_.take(bytes);
    }

    detail::byte_limit charged_;  ///< counts only if there is a limit: the stripes count for usage()
    detail::span_heap  heap_;
    stripe             stripes_[stripes]{stripe{0}, stripe{1}, stripe{2}, stripe{3},
                                         stripe{4}, stripe{5}, stripe{6}, stripe{7}};
};

static_assert(backing_store<heap_store>);

}  // namespace tenure

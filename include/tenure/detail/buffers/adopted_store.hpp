// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include <tenure/detail/base/sizes.hpp>
#include <tenure/detail/blocks/block_table.hpp>
#include <tenure/detail/buffers/adopted_memory.hpp>
#include <tenure/error.hpp>
#include <tenure/result.hpp>
#include <tenure/store/concept.hpp>

namespace tenure::detail {

/// A registry's store of adopted memory, each piece a block. It makes no others. Thread-safe; costs a table's entry
/// for each.
class adopted_store {
public:
    static constexpr store_traits traits{.addressable = true};

    adopted_store() noexcept                       = default;
    adopted_store(adopted_store const&)            = delete;
    adopted_store& operator=(adopted_store const&) = delete;
    ~adopted_store() {
        table_.for_each([](std::uint64_t, piece const& p) { p.memory->end(); });
    }

    /// Makes the memory a block. Errors: memory_full.
    result<block> insert(adopted_memory& m) noexcept {
        std::uint64_t const id = table_.insert({m.bytes().data(), m.bytes().size(), &m});
        if (!id) return make_error_code(errc::memory_full);
        bytes_.fetch_add(m.bytes().size(), std::memory_order_relaxed);
        return block{id, m.bytes().size()};
    }

    result<block> allocate(std::size_t, std::size_t) { return make_error_code(errc::store_full); }

    result<void> deallocate(std::span<block const> many) noexcept {
        bool all_lived = true;
        for (block const& b : many) {
            piece gone{};
            if (table_.erase({&b, 1}, {&gone, 1}) == 0) {
                all_lived = false;
                continue;
            }
            bytes_.fetch_sub(gone.bytes, std::memory_order_relaxed);
            gone.memory->end();
        }
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

    store_usage usage() const noexcept {
        return {.bytes = bytes_.load(std::memory_order_relaxed), .blocks = table_.size()};
    }

    std::string describe() const { return "adopted memory"; }

private:
    struct piece {
        std::byte*      first;
        std::size_t     bytes;
        adopted_memory* memory;
    };

    result<std::byte*> bytes_of(block b, std::size_t offset, std::size_t n) const noexcept {
        piece p{};
        if (!table_.find(b.id, p) || p.bytes != b.bytes) return make_error_code(errc::no_such_block);
        if (!is_within(offset, n, p.bytes)) return make_error_code(errc::out_of_range);
        return p.first + offset;
    }

    block_table<piece>       table_;
    std::atomic<std::size_t> bytes_ = 0;
};

static_assert(backing_store<adopted_store>);

}  // namespace tenure::detail

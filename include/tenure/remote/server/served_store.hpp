// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <utility>

#include <malloc.h>

#include <tenure/detail/base/os.hpp>
#include <tenure/detail/blocks/block_list.hpp>
#include <tenure/detail/blocks/unfreed.hpp>
#include <tenure/store/any_store.hpp>
#include <tenure/store/heap.hpp>

namespace tenure::detail {

/// The store that a server exports. Its blocks are zeros when they are allocated. Blocks that it could not free
/// are tried again. As thread-safe as the store.
class served_store {
public:
    /// Fills a new block with zeros, faster than write() does; null: nothing is faster.
    using clear_type = std::function<result<void>(block)>;

    explicit served_store(any_store store, clear_type clear = {}) noexcept
        : store_(std::move(store)), clear_(std::move(clear)) {}
    ~served_store() { refused_.retry(store_); }
    served_store(served_store const&)            = delete;
    served_store& operator=(served_store const&) = delete;

    any_store&       get() noexcept { return store_; }
    any_store const& get() const noexcept { return store_; }
    bool             addressable() const noexcept { return store_.capabilities().addressable; }

    /// Allocates a block of zeros, so that no client sees what another left. Errors: those of the store.
    result<block> allocate(std::size_t bytes, std::size_t alignment) {
        result<block> const b = store_.allocate(bytes, alignment);
        if (!b) return b;
        if (auto const done = clear(*b); !done) {
            static_cast<void>(free({&*b, 1}));
            return done.error();
        }
        return b;
    }

    result<void> free(std::span<block const> many) noexcept {
        if (many.empty()) return {};
        auto const done = store_.deallocate(many);
        if (!done && done.error() != errc::no_such_block) {
            if (owned_block_list again = make_block_list(many.size())) {
                for (block const& b : many) again->add(b);
                refused_.add(std::move(again), done.error());
            }
        } else if (!refused_.empty()) {
            refused_.retry(store_);
        }
        return done;
    }

    /// Returns to the system the memory that a heap_store and malloc keep. Called when no client has anything.
    void give_back() noexcept {
        if (auto* const heap = store_.get_if<heap_store>()) heap->trim();
        ::malloc_trim(0);
    }

    unfreed::figures unfreed_blocks() const noexcept { return refused_.usage(); }

    /// Copies between two blocks of the store; through this process, in pieces, if the store cannot copy. The
    /// caller has checked that the ranges are in their blocks. Errors: out_of_range if they overlap; those of the
    /// store.
    result<void> copy(block from, std::size_t from_offset, block to, std::size_t to_offset, std::size_t bytes) {
        if (from.id == to.id && std::max(from_offset, to_offset) - std::min(from_offset, to_offset) < bytes)
            return make_error_code(errc::out_of_range);  // they overlap
        if (store_.capabilities().copyable) return store_.try_copy(from, from_offset, to, to_offset, bytes);

        alignas(64) std::array<std::byte, std::size_t{64} << 10> piece;
        for (std::size_t done = 0; done < bytes;) {
            auto const part = std::span(piece).first(std::min(piece.size(), bytes - done));
            if (auto const r = store_.read(from, from_offset + done, part); !r) return r;
            if (auto const w = store_.write(to, to_offset + done, part); !w) return w;
            done += part.size();
        }
        return {};
    }

private:
    static constexpr std::size_t large = std::size_t{1} << 20;

    result<void> clear(block b) {
        if (b.bytes == 0) return {};
        if (clear_) return clear_(b);
        if (addressable()) {
            auto const at = store_.try_address(b);
            if (!at) return at.error();
            std::byte*  p = *at;
            std::size_t n = b.bytes;
            if (store_.capabilities().anonymous && n >= large) {  // new pages are zeros and cost nothing yet
                std::size_t const page = page_bytes();
                std::size_t const head = (page - reinterpret_cast<std::uintptr_t>(p) % page) % page;
                std::size_t const body = (n - head) / page * page;
                if (drop_pages(p + head, body)) {
                    std::memset(p, 0, head);
                    p += head + body;
                    n -= head + body;
                }
            }
            if (n) std::memset(p, 0, n);
            return {};
        }
        static constexpr std::array<std::byte, std::size_t{64} << 10> zeros{};
        for (std::size_t at = 0; at < b.bytes;) {
            auto const part = std::span(zeros).first(std::min(zeros.size(), b.bytes - at));
            if (auto const w = store_.write(b, at, part); !w) return w;
            at += part.size();
        }
        return {};
    }

    any_store        store_;
    clear_type const clear_;
    unfreed          refused_;
};

}  // namespace tenure::detail

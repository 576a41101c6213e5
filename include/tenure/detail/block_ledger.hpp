// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>

#include <tenure/detail/hash_index.hpp>
#include <tenure/store/concept.hpp>

namespace tenure::detail {

/// Whether a store knows the block no more. A read of nothing asks for that and moves no bytes.
template <class Store>
bool is_gone(Store& s, block b) noexcept {
    result<void> const r = s.read(b, 0, {});
    return !r && r.error() == errc::no_such_block;
}

/// The blocks of its upstream that an adaptor answers for. A failed deallocate() does not say what it freed, and
/// two threads may name the same block: here each block is struck out once, by whoever first sees that it is gone.
/// No id is used twice, so that cannot be a later block.
///
/// Thread-safe. 24 bytes a block, and O(1) each. Striking out allocates nothing.
class block_ledger {
    struct entry {
        std::uint64_t index_key  = 0;
        entry*        index_next = nullptr;
        std::size_t   bytes      = 0;
    };

public:
    block_ledger() = default;
    ~block_ledger() {
        for (shard& s : shards_) s.entries.drain([](entry& e) { delete &e; });
    }
    block_ledger(block_ledger const&)            = delete;
    block_ledger& operator=(block_ledger const&) = delete;

    /// Room for one entry: taken before there is a block to enter, for afterwards it is too late to fail.
    class room {
    public:
        room() noexcept : entry_(new(std::nothrow) entry) {}
        explicit operator bool() const noexcept { return entry_ != nullptr; }

    private:
        friend block_ledger;
        std::unique_ptr<entry> entry_;
    };

    /// False: it is there already.
    bool enter(room r, block b) noexcept {
        shard&                 s = shard_of(b.id);
        std::scoped_lock const guard(s.lock);
        if (s.entries.first(b.id)) return false;
        r.entry_->bytes = b.bytes;
        s.entries.insert(b.id, *r.entry_.release());
        return true;
    }

    /// After `upstream.deallocate(many)` with that outcome: calls gone(bytes) for each block that is struck out.
    template <class Store, class Gone>
    void settle(Store& upstream, std::span<block const> many, result<void> const& outcome, Gone gone) noexcept {
        for (block const& b : many) {
            if (!outcome && !(holds(b.id) && is_gone(upstream, b))) continue;
            if (std::optional<std::size_t> const bytes = strike(b.id)) gone(*bytes);
        }
    }

private:
    struct alignas(64) shard {
        std::mutex        lock;
        hash_index<entry> entries;
    };

    shard& shard_of(std::uint64_t id) noexcept { return shards_[id % std::size(shards_)]; }

    bool holds(std::uint64_t id) noexcept {
        shard&                 s = shard_of(id);
        std::scoped_lock const guard(s.lock);
        return s.entries.first(id) != nullptr;
    }

    std::optional<std::size_t> strike(std::uint64_t id) noexcept {
        std::unique_ptr<entry> e;
        shard&                 s = shard_of(id);
        std::scoped_lock const guard(s.lock);
        e.reset(s.entries.first(id));
        if (!e) return std::nullopt;
        s.entries.erase(*e);
        return e->bytes;
    }

    shard shards_[16];
};

}  // namespace tenure::detail

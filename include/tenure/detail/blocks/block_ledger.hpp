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

#include <tenure/detail/base/fork_list.hpp>
#include <tenure/detail/base/hash_index.hpp>
#include <tenure/detail/blocks/is_gone.hpp>
#include <tenure/store/concept.hpp>

namespace tenure::detail {

/// The blocks of its upstream that an adaptor answers for. A failed deallocate() does not say what it freed, and
/// two threads may name the same block. So each block is struck out once, by the first thread that sees that it is
/// gone. No id is used twice, so a later block cannot be mistaken for it.
///
/// Thread-safe. 24 bytes a block, and O(1) for each. Striking out allocates nothing.
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

    /// Room for one entry, allocated before the block is, because entering must not fail. Converts to false if
    /// memory is full.
    class room {
    public:
        room() noexcept : entry_(new(std::nothrow) entry) {}
        explicit operator bool() const noexcept { return entry_ != nullptr; }

    private:
        friend block_ledger;
        std::unique_ptr<entry> entry_;
    };

    /// Enters a block. Returns false if it is there already.
    bool enter(room r, block b) noexcept {
        shard&                 s = shard_of(b.id);
        std::scoped_lock const guard(s.lock);
        if (s.entries.first(b.id)) return false;
        r.entry_->bytes = b.bytes;
        s.entries.insert(b.id, *r.entry_.release());
        return true;
    }

    /// Strikes out the blocks that are gone after `upstream.deallocate(many)` with that outcome, and calls
    /// gone(bytes) for each.
    template <class Store, class Gone>
    void settle(Store& upstream, std::span<block const> many, result<void> const& outcome, Gone gone) noexcept {
        for (block const& b : many) {
            if (!outcome && !(holds(b) && is_gone(upstream, b))) continue;
            if (std::optional<std::size_t> const bytes = strike(b)) gone(*bytes);
        }
    }

private:
    struct alignas(64) shard {
        fork_mutex        lock;
        hash_index<entry> entries;
    };

    shard& shard_of(std::uint64_t id) noexcept { return shards_[id % std::size(shards_)]; }

    /// Returns the entry of a block, or null. A block whose `bytes` differ from those entered is not the same
    /// block.
    static entry* find(shard& s, block b) noexcept {
        entry* const e = s.entries.first(b.id);
        return e && e->bytes == b.bytes ? e : nullptr;
    }

    bool holds(block b) noexcept {
        shard&                 s = shard_of(b.id);
        std::scoped_lock const guard(s.lock);
        return find(s, b) != nullptr;
    }

    std::optional<std::size_t> strike(block b) noexcept {
        std::unique_ptr<entry> e;  // deleted after the lock is released
        shard&                 s = shard_of(b.id);
        std::scoped_lock const guard(s.lock);
        e.reset(find(s, b));
        if (!e) return std::nullopt;
        s.entries.erase(*e);
        return e->bytes;
    }

    shard shards_[16];
};

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include <tenure/remote/protocol.hpp>
#include <tenure/remote/server/common.hpp>
#include <tenure/remote/server/held_block.hpp>
#include <tenure/remote/server/places.hpp>
#include <tenure/remote/server/served_store.hpp>
#include <tenure/remote/server/tenant.hpp>

namespace tenure::detail {

/// The blocks of one session, by id and by batch. The store's blocks of a batch lie in one array, as its
/// deallocate() takes them. So the end of a batch is one call, after a look at eight bytes a block. Freeing
/// allocates nothing. Everything held, bookkeeping included, is taken of the tenant's limits before it is made;
/// only what a trim adds is counted afterwards. Not thread-safe.
class holdings {
public:
    /// An estimate of the bytes that a store needs to know one block, and spends on an alignment up to this.
    static constexpr std::uint64_t store_cost = 64;
    /// The largest alignment that is passed to a store.
    static constexpr std::size_t most_alignment = std::size_t{1} << 30;

    holdings(common& c, std::shared_ptr<tenant> of)
        : store_(c.store), names_(c.names), account_(std::move(of)), places_(c.ids), lists_(1) {}
    ~holdings() { clear(); }

    std::uint64_t bytes() const noexcept { return bytes_; }
    std::uint64_t blocks() const noexcept { return blocks_; }
    std::uint64_t batches() const noexcept { return numbers_.size(); }

    /// Allocates `count` blocks and returns the first id. A block takes up at least its alignment, if that exceeds
    /// store_cost. Errors, after which nothing is held: protocol_error if `count` is 0, bad_alignment,
    /// memory_full, a limit, those of the store.
    result<std::uint64_t> allocate(std::uint64_t batch, std::size_t bytes, std::size_t alignment,
                                   std::uint64_t count) noexcept {
        if (count == 0) return make_error_code(errc::protocol_error);
        if (alignment > most_alignment) return make_error_code(errc::bad_alignment);
        std::size_t const room = alignment > store_cost ? std::max(bytes, alignment) : bytes;
        settling const    at_end(*this);
        if (auto const why = take_for(batch, room, count, room != bytes)) return why;
        std::uint32_t list  = 0;
        std::uint64_t first = 0;
        try {
            list = open(batch);
            memory_.reserve(lists_[list], count, room != bytes);
            first = places_.make(count);
        } catch (std::bad_alloc const&) {
            close_if_empty(list);
            return make_error_code(errc::memory_full);
        }
        batch_list&       l      = lists_[list];
        std::size_t const before = l.ids.size();
        for (std::uint64_t i = 0; i < count; ++i) {
            auto const b = store_->allocate(room, alignment);
            if (!b) {
                static_cast<void>(store_->free(std::span(l.blocks).subspan(before)));
                l.shrink(before);
                places_.abandon(first, count);
                close_if_empty(list);
                return b.error();
            }
            l.push(first + i, *b, static_cast<std::uint32_t>(room - bytes));
        }
        for (std::uint64_t i = 0; i < count; ++i)
            places_.put(first + i, {list, static_cast<std::uint32_t>(before + i)});
        bytes_ += bytes * count;
        room_ += room * count;
        blocks_ += count;
        return first;
    }

    /// A block of the store, and how many of its first bytes the client knows.
    struct found {
        block       where;
        std::size_t bytes = 0;
    };

    result<found> find(protocol::block_name const& name) noexcept {
        block_place const* const at = places_.find(name.id);
        if (!at) return make_error_code(errc::no_such_block);
        batch_list const& l     = lists_[at->list];
        std::size_t const bytes = l.bytes(at->index);
        if (bytes != name.bytes) return make_error_code(errc::no_such_block);
        return found{l.blocks[at->index], bytes};
    }

    /// Returns the block as a held_block, which others may use and which stays until they leave. Null: memory is
    /// full.
    std::shared_ptr<held_block> hold(std::uint64_t id, found const& what) noexcept {
        try {
            if (held_.size() >= most_held_) {  // drop those that nobody uses
                erase_if(held_, [](auto const& e) { return e.second.use_count() == 1; });
                most_held_ = std::max(least_held, 2 * held_.size());
            }
            auto& h = held_[id];
            if (!h) h = std::make_shared<held_block>(store_, account_.of(), what.where, what.bytes, id);
            return h;
        } catch (std::bad_alloc const&) {
            return nullptr;
        }
    }

    held_block* held(std::uint64_t id) const noexcept {
        if (held_.empty()) return nullptr;
        auto const at = held_.find(id);
        return at == held_.end() ? nullptr : at->second.get();
    }

    /// Frees all that it can. Errors: no_such_block if one is not live, those of the store; a limit if runs name
    /// too many blocks, and then nothing is freed.
    std::error_code deallocate(std::span<protocol::block_run const> runs) noexcept {
        if (too_many(runs)) return limit_error(resource::buffers, false);
        settling const          at_end(*this);
        std::array<block, 1024> many;
        std::size_t             n = 0;
        std::error_code         why;
        auto const              flush = [&] {
            if (auto const done = store_->free(std::span(many).first(std::exchange(n, 0))); !done)
                why = done.error();
        };
        for (protocol::block_run const& r : runs) {
            std::uint64_t const end = r.first + r.count;
            for (std::uint64_t id = r.first; id < end;) {
                block_place* const at = places_.find(id);
                if (!at || lists_[at->list].bytes(at->index) != r.bytes) {
                    why = make_error_code(errc::no_such_block);
                    id  = places_.skip(id);
                    continue;
                }
                block_place const was = *at;
                block const       b   = lists_[was.list].blocks[was.index];
                take_out(was);
                places_.erase(id);
                close_if_empty(was.list);
                bytes_ -= r.bytes;
                room_ -= b.bytes;
                --blocks_;
                if (is_ours_alone(id)) many[n++] = b;
                else account_.pass_on(resource::bytes, b.bytes);  // its last user gives that back
                if (n == many.size()) flush();
                ++id;
            }
        }
        flush();
        return why;
    }

    /// Moves blocks to `batch`: all or none. Errors: no_such_block, memory_full, a limit.
    std::error_code transfer(std::span<protocol::block_run const> runs, std::uint64_t batch) noexcept {
        if (too_many(runs)) return limit_error(resource::buffers, false);
        std::uint64_t count   = 0;
        bool          smaller = false;  // some are smaller for the client than for the store
        for (protocol::block_run const& r : runs) {
            for (std::uint64_t i = 0; i < r.count; ++i) {
                block_place const* const at = places_.find(r.first + i);
                if (!at || lists_[at->list].bytes(at->index) != r.bytes)
                    return make_error_code(errc::no_such_block);
                smaller |= lists_[at->list].blocks[at->index].bytes != r.bytes;
            }
            count += r.count;
        }
        if (count == 0) return {};
        settling const at_end(*this);
        if (auto const why = take_for_list(batch, count, smaller)) return why;
        std::uint32_t to = 0;
        try {
            to = open(batch);
            memory_.reserve(lists_[to], count, smaller);
        } catch (std::bad_alloc const&) {
            close_if_empty(to);
            return make_error_code(errc::memory_full);
        }
        for (protocol::block_run const& r : runs) {
            for (std::uint64_t i = 0; i < r.count; ++i) {
                block_place&      at  = *places_.find(r.first + i);
                block_place const was = at;
                if (was.list == to) continue;
                batch_list&       l    = lists_[to];
                batch_list const& from = lists_[was.list];
                at                     = {to, static_cast<std::uint32_t>(l.ids.size())};
                l.push(r.first + i, from.blocks[was.index], from.less(was.index));
                take_out(was);
                close_if_empty(was.list);
            }
        }
        return {};
    }

    /// Shortens blocks to the `bytes` of their runs: as many as it can. The store's blocks stay as they are.
    /// Errors: no_such_block if one is not live, is smaller, would be 4 GiB or more below the store's block, or
    /// may be in use by others; memory_full; a limit if runs name too many blocks.
    std::error_code trim(std::span<protocol::block_run const> runs) noexcept {
        if (too_many(runs)) return limit_error(resource::buffers, false);
        settling const  at_end(*this);
        std::error_code why;
        for (protocol::block_run const& r : runs) {
            std::uint64_t const end = r.first + r.count;
            for (std::uint64_t id = r.first; id < end;) {
                block_place const* const at = places_.find(id);
                if (!at || r.bytes > lists_[at->list].bytes(at->index) || held(id) || too_small(*at, r.bytes)) {
                    why = make_error_code(errc::no_such_block);
                    id  = at ? id + 1 : places_.skip(id);
                    continue;
                }
                batch_list&         l    = lists_[at->list];
                std::uint64_t const less = l.blocks[at->index].bytes - r.bytes;
                if (less != 0 && !make_room_for_less(l)) return make_error_code(errc::memory_full);
                bytes_ -= l.bytes(at->index) - r.bytes;
                if (less != 0) l.smaller[at->index] = static_cast<std::uint32_t>(less);
                ++id;
            }
        }
        return why;
    }

    /// Frees the blocks of `batch`, if there is such a batch. Errors: those of the store.
    std::error_code end_batch(std::uint64_t batch) noexcept {
        auto const at = numbers_.find(batch);
        if (at == numbers_.end()) return {};
        settling const      at_end(*this);
        std::uint32_t const list = at->second;
        auto const          why  = free_all(list);
        close_if_empty(list);
        return why;
    }

    /// Frees everything, and gives back all that was taken of the tenant's limits.
    void clear() noexcept {
        for (std::uint32_t i = 0; i < lists_.size(); ++i) {
            [[maybe_unused]] auto const refused = free_all(i);
            memory_.drop(lists_[i]);
        }
        numbers_ = {};
        lists_.resize(1);
        unused_ = {};
        places_.clear();
        account_.close();
    }
    /// Gives back what was taken of the tenant's limits and is not used.
    void settle() noexcept {
        account_.settle(resource::bytes, room_);
        account_.settle(resource::buffers, blocks_);
        account_.settle(resource::batches, numbers_.size());
        account_.settle(resource::memory, cost());
    }

private:
    static constexpr std::size_t least_held = 256;

    static constexpr std::size_t small_list = 16;  ///< entries whose memory is kept when the batch is over

    std::uint64_t cost() const noexcept {
        return memory_.bytes() + lists_.capacity() * list_memory::list_cost +
               places_.pages() * place_map::page_cost + blocks_ * store_cost;
    }

    /// Takes what `count` more blocks of `room` bytes need of the tenant's limits.
    std::error_code take_for(std::uint64_t batch, std::size_t room, std::uint64_t count, bool smaller) noexcept {
        if (count >= block_place::nowhere) return limit_error(resource::buffers, false);
        if (room != 0 && count > ~std::uint64_t{0} / room) return limit_error(resource::bytes, false);
        if (auto const why = account_.take(resource::buffers, count)) return why;
        if (auto const why = account_.take(resource::bytes, room * count)) return why;
        if (auto const why = account_.take(resource::memory,
                                           places_.pages_for(count) * place_map::page_cost + count * store_cost))
            return why;
        return take_for_list(batch, count, smaller);
    }
    /// Takes what the list of `batch` needs for `count` more blocks.
    std::error_code take_for_list(std::uint64_t batch, std::uint64_t count, bool smaller) noexcept {
        std::uint64_t need = 0;
        auto const    at   = batch == 0 ? numbers_.end() : numbers_.find(batch);
        if (batch == 0) {
            need = list_memory::growth(lists_[0], count, smaller);
        } else if (at != numbers_.end()) {
            need = list_memory::growth(lists_[at->second], count, smaller);
        } else {
            if (auto const why = account_.take(resource::batches, 1)) return why;
            if (!unused_.empty()) need = list_memory::growth(lists_[unused_.back()], count, smaller);
            else
                need = list_memory::growth(batch_list(), count, smaller) +
                       (lists_.capacity() + 1) * list_memory::list_cost;
        }
        return account_.take(resource::memory, need);
    }
    /// Makes room to note the sizes of trimmed blocks. Returns false if memory is full. No limit refuses it,
    /// because the client has already given the shorter block to somebody; settle() counts it afterwards, four
    /// bytes a block.
    bool make_room_for_less(batch_list& l) noexcept {
        try {
            memory_.reserve(l, 0, true);
            return true;
        } catch (std::bad_alloc const&) {
            return false;
        }
    }
    /// Returns whether the store's block exceeds `bytes` by more than can be noted.
    bool too_small(block_place at, std::uint64_t bytes) const noexcept {
        return lists_[at.list].blocks[at.index].bytes - bytes > ~std::uint32_t{0};
    }

    /// Returns whether runs name more blocks than the client may have. This bounds the work of a request.
    bool too_many(std::span<protocol::block_run const> runs) const noexcept {
        return more_than(account_.of()->most(resource::buffers), runs);
    }

    /// Returns the list of `batch`, which it opens if needed. Throws bad_alloc.
    std::uint32_t open(std::uint64_t batch) {
        if (batch == 0) return 0;
        if (auto const at = numbers_.find(batch); at != numbers_.end()) return at->second;
        if (unused_.empty()) {
            if (lists_.size() == lists_.capacity()) lists_.reserve(2 * lists_.size());
            unused_.reserve(lists_.capacity());  // so that every list can be put there later
            lists_.emplace_back();
            unused_.push_back(static_cast<std::uint32_t>(lists_.size() - 1));
        }
        numbers_.emplace(batch, unused_.back());
        std::uint32_t const list = unused_.back();
        unused_.pop_back();
        lists_[list].number = batch;
        return list;
    }

    void close_if_empty(std::uint32_t list) noexcept {
        batch_list& l = lists_[list];
        if (!l.ids.empty()) return;
        if (l.ids.capacity() > (list == 0 ? 256 : small_list)) memory_.drop(l);
        if (list == 0 || numbers_.erase(l.number) == 0) return;
        unused_.push_back(list);
    }

    void take_out(block_place was) noexcept {
        batch_list& l = lists_[was.list];
        if (was.index + 1 != l.ids.size()) places_.find(l.ids.back())->index = was.index;
        l.take_out(was.index);
    }

    /// Gives the block up, and takes its names away. Returns whether nobody else uses it: the caller then frees it.
    bool is_ours_alone(std::uint64_t id) noexcept {
        if (held_.empty()) return true;
        auto const at = held_.find(id);
        if (at == held_.end()) return true;
        auto const h = std::move(at->second);
        held_.erase(at);
        bool const alone = h->give_up();
        names_.remove(*h);
        return alone;
    }

    std::error_code free_all(std::uint32_t list) noexcept {
        batch_list& l    = lists_[list];
        std::size_t ours = 0;
        for (std::size_t i = 0; i < l.ids.size(); ++i) {
            std::size_t const room = l.blocks[i].bytes;
            bytes_ -= l.bytes(i);
            room_ -= room;
            places_.erase(l.ids[i]);
            if (is_ours_alone(l.ids[i])) l.blocks[ours++] = l.blocks[i];
            else account_.pass_on(resource::bytes, room);  // its last user gives that back
        }
        blocks_ -= l.ids.size();
        auto const done = store_->free(std::span(l.blocks).first(ours));
        l.shrink(0);
        return done.error();
    }

    std::shared_ptr<served_store>                                         store_;
    shared_names&                                                         names_;
    account                                                               account_;
    place_map                                                             places_;
    std::vector<batch_list>                                               lists_;   ///< the first is of no batch
    std::vector<std::uint32_t>                                            unused_;  ///< indices of unused lists
    boost::unordered_flat_map<std::uint64_t, std::uint32_t>               numbers_;
    boost::unordered_flat_map<std::uint64_t, std::shared_ptr<held_block>> held_;
    std::uint64_t bytes_ = 0, room_ = 0, blocks_ = 0;  ///< room_: bytes of the store's blocks
    list_memory   memory_;
    std::size_t   most_held_ = least_held;  ///< at this size, those that nobody uses are dropped
};

}  // namespace tenure::detail

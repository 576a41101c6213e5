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
#include <tenure/remote/server/held_block.hpp>
#include <tenure/remote/server/places.hpp>
#include <tenure/remote/server/served_store.hpp>

namespace tenure::detail {

/// What one client may have. A limit that is 0 is none.
struct holding_limits {
    std::uint64_t bytes = 0, blocks = 0, batches = 0;
};

/// The blocks of one session, by id and by batch. The store's blocks of a batch lie in one array, as the store's
/// deallocate() takes them: so the end of a batch is one call, after a look at eight bytes a block. Freeing
/// allocates nothing. Not thread-safe.
class holdings {
public:
    holdings(std::shared_ptr<served_store> store, id_source& ids, holding_limits const& limits)
        : store_(std::move(store)), limits_(limits), places_(ids), lists_(1) {}
    ~holdings() { clear(); }
    holdings(holdings const&)            = delete;
    holdings& operator=(holdings const&) = delete;

    std::uint64_t bytes() const noexcept { return bytes_; }
    std::uint64_t blocks() const noexcept { return blocks_; }
    std::uint64_t batches() const noexcept { return numbers_.size(); }

    /// The first id of `count` blocks, or an error and nothing.
    result<std::uint64_t> allocate(std::uint64_t batch, std::size_t bytes, std::size_t alignment,
                                   std::uint64_t count) noexcept {
        if (count == 0) return make_error_code(errc::protocol_error);
        if (limits_.blocks && count > limits_.blocks - std::min(blocks_, limits_.blocks))
            return make_error_code(errc::limit_exceeded);
        if (bytes > (~std::uint64_t{0} - bytes_) / count) return make_error_code(errc::limit_exceeded);
        if (limits_.bytes && bytes_ + bytes * count > limits_.bytes) return make_error_code(errc::limit_exceeded);
        std::uint32_t list  = 0;
        std::uint64_t first = 0;
        try {
            auto const opened = open(batch);
            if (!opened) return opened.error();
            list = *opened;
            lists_[list].reserve(count);
            first = places_.make(count);
        } catch (std::bad_alloc const&) {
            close_if_empty(list);
            return make_error_code(errc::memory_full);
        }
        batch_list&       l      = lists_[list];
        std::size_t const before = l.blocks.size();
        for (std::uint64_t i = 0; i < count; ++i) {
            auto const b = store_->allocate(bytes, alignment);
            if (!b) {
                static_cast<void>(store_->free(std::span(l.blocks).subspan(before)));
                l.shrink(before);
                places_.abandon(first, count);
                close_if_empty(list);
                return b.error();
            }
            l.ids.push_back(first + i);
            l.blocks.push_back(*b);
        }
        for (std::uint64_t i = 0; i < count; ++i)
            places_.put(first + i, {list, static_cast<std::uint32_t>(before + i)});
        bytes_ += bytes * count;
        blocks_ += count;
        return first;
    }

    /// The store's.
    result<block> find(protocol::block_name const& name) noexcept {
        block_place const* const at = places_.find(name.id);
        if (!at) return make_error_code(errc::no_such_block);
        block const b = lists_[at->list].blocks[at->index];
        if (b.bytes != name.bytes) return make_error_code(errc::no_such_block);
        return b;
    }

    /// Somebody else may come to be at it, and it stays till they leave. Null: memory is full.
    std::shared_ptr<held_block> hold(protocol::block_name const& name, block where) noexcept {
        try {
            if (held_.size() >= most_held_) {  // let go of those at which nobody is any more
                erase_if(held_, [](auto const& e) { return e.second.use_count() == 1; });
                most_held_ = std::max(least_held, 2 * held_.size());
            }
            auto& h = held_[name.id];
            if (!h) h = std::make_shared<held_block>(store_, where, name.id);
            return h;
        } catch (std::bad_alloc const&) {
            return nullptr;
        }
    }

    /// Null: nobody else ever was at it.
    held_block* held(std::uint64_t id) const noexcept {
        if (held_.empty()) return nullptr;
        auto const at = held_.find(id);
        return at == held_.end() ? nullptr : at->second.get();
    }

    /// Frees all that it can. `gone(held_block&)` hears of each that somebody else may be at.
    template <class F>
    result<void> deallocate(std::span<protocol::block_run const> runs, F gone) noexcept {
        if (too_many(runs)) return make_error_code(errc::limit_exceeded);
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
                if (!at || lists_[at->list].blocks[at->index].bytes != r.bytes) {
                    why = make_error_code(errc::no_such_block);
                    id  = places_.skip(id);
                    continue;
                }
                block_place const was = *at;
                block const       b   = lists_[was.list].blocks[was.index];
                take_out(was);
                places_.erase(id);
                close_if_empty(was.list);
                bytes_ -= b.bytes;
                --blocks_;
                if (is_ours_alone(id, gone)) many[n++] = b;
                if (n == many.size()) flush();
                ++id;
            }
        }
        flush();
        if (why) return why;
        return {};
    }

    /// All or none.
    result<void> transfer(std::span<protocol::block_run const> runs, std::uint64_t batch) noexcept {
        if (too_many(runs)) return make_error_code(errc::limit_exceeded);
        std::uint64_t count = 0;
        for (protocol::block_run const& r : runs) {
            for (std::uint64_t i = 0; i < r.count; ++i) {
                block_place const* const at = places_.find(r.first + i);
                if (!at || lists_[at->list].blocks[at->index].bytes != r.bytes)
                    return make_error_code(errc::no_such_block);
            }
            count += r.count;
        }
        if (count == 0) return {};
        std::uint32_t to = 0;
        try {
            auto const opened = open(batch);
            if (!opened) return opened.error();
            to = *opened;
            lists_[to].reserve(count);
        } catch (std::bad_alloc const&) {
            close_if_empty(to);
            return make_error_code(errc::memory_full);
        }
        for (protocol::block_run const& r : runs) {
            for (std::uint64_t i = 0; i < r.count; ++i) {
                block_place&      at  = *places_.find(r.first + i);
                block_place const was = at;
                if (was.list == to) continue;
                batch_list& l = lists_[to];
                at            = {to, static_cast<std::uint32_t>(l.ids.size())};
                l.ids.push_back(r.first + i);
                l.blocks.push_back(lists_[was.list].blocks[was.index]);
                take_out(was);
                close_if_empty(was.list);
            }
        }
        return {};
    }

    template <class F>
    result<void> end_batch(std::uint64_t batch, F gone) noexcept {
        auto const at = numbers_.find(batch);
        if (at == numbers_.end()) return {};
        std::uint32_t const list = at->second;
        auto const          done = free_all(list, gone);
        close_if_empty(list);
        return done;
    }

    /// Frees everything.
    template <class F>
    void clear(F gone) noexcept {
        for (std::uint32_t i = 0; i < lists_.size(); ++i) static_cast<void>(free_all(i, gone));
        numbers_.clear();
        lists_.resize(1);
        unused_.clear();
    }
    void clear() noexcept {
        clear([](held_block&) {});
    }

private:
    static constexpr std::size_t least_held = 256;

    struct batch_list {
        std::uint64_t              number = 0;
        std::vector<std::uint64_t> ids;
        std::vector<block>         blocks;  ///< of the same

        void reserve(std::uint64_t more) {
            if (more >= block_place::nowhere) throw std::bad_alloc();  // or the sum could wrap
            std::size_t const wanted = ids.size() + more;
            if (wanted >= block_place::nowhere) throw std::bad_alloc();
            if (wanted <= ids.capacity() && wanted <= blocks.capacity()) return;
            std::size_t const room = std::max(wanted, 2 * ids.size());
            ids.reserve(room);
            blocks.reserve(room);
        }
        void shrink(std::size_t n) noexcept {
            ids.resize(n);
            blocks.resize(n);
        }
    };

    /// So that what a client names is bounded by what it may have.
    bool too_many(std::span<protocol::block_run const> runs) const noexcept {
        std::uint64_t const most  = limits_.blocks ? limits_.blocks : std::uint64_t{1} << 32;
        std::uint64_t       count = 0;
        for (protocol::block_run const& r : runs) {
            if (r.count > most - count || r.first + r.count < r.first) return true;
            count += r.count;
        }
        return false;
    }

    /// The list of that batch, which is opened; the error is limit_exceeded.
    result<std::uint32_t> open(std::uint64_t batch) {
        if (batch == 0) return std::uint32_t{0};
        if (auto const at = numbers_.find(batch); at != numbers_.end()) return at->second;
        if (limits_.batches && numbers_.size() >= limits_.batches) return make_error_code(errc::limit_exceeded);
        if (unused_.empty()) {
            if (unused_.capacity() < lists_.size())  // each can be put there
                unused_.reserve(2 * lists_.size());
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
        if (list == 0 || !l.ids.empty()) return;
        if (numbers_.erase(l.number) == 0) return;
        if (l.ids.capacity() > 256) {
            l.ids    = {};
            l.blocks = {};
        }
        unused_.push_back(list);
    }

    void take_out(block_place was) noexcept {
        batch_list& l = lists_[was.list];
        if (was.index + 1 != l.ids.size()) {
            l.ids[was.index]                      = l.ids.back();
            l.blocks[was.index]                   = l.blocks.back();
            places_.find(l.ids[was.index])->index = was.index;
        }
        l.ids.pop_back();
        l.blocks.pop_back();
    }

    template <class F>
    bool is_ours_alone(std::uint64_t id, F& gone) noexcept {
        if (held_.empty()) return true;
        auto const at = held_.find(id);
        if (at == held_.end()) return true;
        auto const h = std::move(at->second);
        held_.erase(at);
        bool const alone = h->give_up();
        gone(*h);
        return alone;
    }

    template <class F>
    result<void> free_all(std::uint32_t list, F& gone) noexcept {
        batch_list& l    = lists_[list];
        std::size_t ours = 0;
        for (std::size_t i = 0; i < l.ids.size(); ++i) {
            bytes_ -= l.blocks[i].bytes;
            places_.erase(l.ids[i]);
            if (is_ours_alone(l.ids[i], gone)) l.blocks[ours++] = l.blocks[i];
        }
        blocks_ -= l.ids.size();
        auto const done = store_->free(std::span(l.blocks).first(ours));
        l.shrink(0);
        return done;
    }

    std::shared_ptr<served_store>                                         store_;
    holding_limits const                                                  limits_;
    place_map                                                             places_;
    std::vector<batch_list>                                               lists_;   ///< the first: of no batch
    std::vector<std::uint32_t>                                            unused_;  ///< lists
    boost::unordered_flat_map<std::uint64_t, std::uint32_t>               numbers_;
    boost::unordered_flat_map<std::uint64_t, std::shared_ptr<held_block>> held_;
    std::uint64_t                                                         bytes_ = 0, blocks_ = 0;
    std::size_t most_held_ = least_held;  ///< before it is seen who is needed still
};

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <iterator>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <sched.h>

#include <tenure/detail/blocks/block_table.hpp>
#include <tenure/detail/blocks/gather_space.hpp>
#include <tenure/detail/blocks/is_gone.hpp>
#include <tenure/error.hpp>
#include <tenure/fleet/copying.hpp>
#include <tenure/fleet/core.hpp>
#include <tenure/fleet/freed_replicas.hpp>
#include <tenure/raise.hpp>
#include <tenure/store/adaptor/parts.hpp>
#include <tenure/store/any_store.hpp>

namespace tenure::detail {

/// What a group knows of a block by its name.
struct group_block {
    std::size_t   bytes;
    std::uint32_t buffer;
};

/// Returns whether an error says that a store is gone, with all that it held; perhaps to come back empty.
inline bool says_lost(std::error_code e) noexcept {
    return e == errc::disconnected || e == errc::device_unavailable || e == errc::store_closed ||
           e == errc::store_replaced || e == errc::stale_handle;
}

/// The stores of a group, and which blocks of them are the copies of a buffer. Thread-safe. No lock is held while a
/// store is called. Freeing allocates nothing.
class group_core {
public:
    using store_number = std::uint16_t;

    /// Errors: as fleet_state::add_store().
    store_number add(std::string name, any_store store, std::size_t capacity, double distance) {
        std::scoped_lock const guard(fleet_.mutex);
        members_.push_back(std::move(store));
        if (std::exception_ptr const wrong =
                thrown_by([&] { fleet_.state.add_store(std::move(name), capacity, distance); })) {
            members_.pop_back();
            std::rethrow_exception(wrong);
        }
        return static_cast<store_number>(members_.size() - 1);
    }

    /// Allocates in a store or, if none is named, in the emptiest running one that has room. Errors: store_lost;
    /// store_full, also if the store does not run; memory_full; the store's.
    result<block> allocate(std::size_t bytes, std::size_t alignment, std::optional<store_number> where) {
        if (!std::has_single_bit(alignment)) return make_error_code(errc::bad_alignment);
        if (bytes > replicated_buffer::most_bytes) return make_error_code(errc::store_full);
        std::error_code why = errc::store_full;
        for (store_list tried;;) {
            std::optional<store_number> const s = hold_room(bytes, where, tried, why);
            if (!s) return why;
            result<block> const made = member(*s).allocate(bytes, alignment);
            if (made) return enter(*s, *made, alignment);
            why = made.error();
            copies_.fetch_sub(1, std::memory_order_relaxed);
            std::scoped_lock const guard(fleet_.mutex);
            fleet_.state.give_room(*s, bytes);
            if (says_lost(why)) fleet_.state.set_state(*s, store_state::lost);
            if (where || !(says_lost(why) || is_full(why)) || tried.full()) return why;
            tried.push_back(*s);
        }
    }

    /// Frees blocks with all their copies, in one call to each store. Errors: no_such_block if one was not live;
    /// what a store says. What a store would not free is tried again by later calls.
    result<void> deallocate(std::span<block const> many) noexcept {
        std::error_code wrong;
        free_refused();
        while (!many.empty()) {
            freed_replicas out(gather_, copies_of(many));
            for (bool room = true; room && !many.empty();) {
                std::scoped_lock const guard(fleet_.mutex);
                for (int n = 0; n < 128 && !many.empty(); ++n) {
                    std::optional<std::uint32_t> const b = find(many.front());
                    room                                 = !b || copies_of(*b) <= out.room();
                    if (!room) break;
                    if (b) forget(many.front(), *b, out);
                    else wrong = errc::no_such_block;
                    many = many.subspan(1);
                }
            }
            if (!many.empty()) ::sched_yield();  // the room is with other threads that free
            free(out, wrong);
        }
        if (wrong) return wrong;
        return {};
    }

    /// Reads the nearest copy or, if that cannot be read, the next. A copy that its store does not have, or says is
    /// corrupt, is dropped if there is another.
    result<void> read(block b, std::size_t offset, std::span<std::byte> out) {
        if (result<void> const ok = check(b, offset, out.size()); !ok || out.empty()) return ok;
        auto const begin = [&](std::uint32_t buffer, std::span<store_number const> tried, auto const&) {
            return fleet_.state.begin_read(buffer, tried);
        };
        auto const end = [&](std::uint32_t r, std::error_code why, auto const& freed) {
            if (why == errc::corrupt || why == errc::no_such_block) fleet_.state.spoil(r, freed);
        };
        return use(
            b, begin, [&](any_store& in, block at) { return in.read(at, offset, out); }, end,
            [](std::error_code) { return true; });
    }

    /// Writes to the nearest copy, which is then the only one. If that fails, the others stay, as they were.
    result<void> write(block b, std::size_t offset, std::span<std::byte const> in) {
        if (result<void> const ok = check(b, offset, in.size()); !ok || in.empty()) return ok;
        auto const begin = [&](std::uint32_t buffer, std::span<store_number const> tried, auto const& freed) {
            return fleet_.state.begin_write(buffer, tried, freed);
        };
        auto const end = [&](std::uint32_t r, std::error_code why, auto const& freed) {
            if (why) fleet_.state.spoil(r, freed);
            else fleet_.state.written(r, freed);
        };
        return use(
            b, begin, [&](any_store& store, block at) { return store.write(at, offset, in); }, end, &says_lost);
    }

    /// Makes the copy for which room was set aside. Returns how many bytes are there, verified; nothing if the copy
    /// is wanted no more, or failed.
    std::optional<std::size_t> carry_out_copy(std::uint32_t r) {
        std::uint32_t from = fleet_state::none;
        copying       what;
        changed([] { return std::size_t{2}; },
                [&](auto const& freed) {
                    if (!memory_lasts([&] { place(r); })) return fleet_.state.finish_copy(r, false, freed);
                    from = fleet_.state.begin_copy(r, freed);
                    if (from != fleet_state::none) what = copying_of(from, r);
                });
        if (from == fleet_state::none) return {};
        std::error_code const wrong = copy(what, r);
        changed([] { return std::size_t{2}; },
                [&](auto const& freed) { fleet_.state.finish_copy(r, !wrong, freed); });
        if (wrong) return {};
        return what.source.bytes;
    }

    /// Drops the replica that was ordered to be, if all others answer and that is still right. Returns whether it
    /// did.
    bool carry_out_drop(std::uint32_t r) {
        std::vector<store_number> others;
        if (!memory_lasts([&] { others = others_of(r); })) {
            std::scoped_lock const guard(fleet_.mutex);
            return fleet_.proposals.keep(r), false;
        }
        for (store_number const s : others) {
            std::error_code const why = ask(r, s);
            if (!why) continue;
            std::scoped_lock const guard(fleet_.mutex);
            if (says_lost(why)) fleet_.state.set_state(s, store_state::lost);
            else return fleet_.proposals.keep(r), false;
        }
        bool done = false;
        changed([] { return std::size_t{1}; },
                [&](auto const& freed) { done = fleet_.proposals.carry_out_drop(r, freed); });
        return done;
    }

    /// Calls f(freed) with the lock, for calls of fleet_state that free something, `most` replicas at most. They
    /// are freed afterwards.
    template <class Most, class F>
    void changed(Most most, F f) {
        for (;; ::sched_yield()) {
            std::optional<freed_replicas> out;
            {
                std::scoped_lock const guard(fleet_.mutex);
                std::size_t const      n = most();
                if (n > 0 && out.emplace(gather_, n).room() < n) continue;
                f([&](std::uint32_t r) { out ? gone(r, *out) : forget(r); });
            }
            if (!out) return;
            std::error_code unheard;  // what a store refuses to free is tried again
            free(*out, unheard);
            return;
        }
    }

    /// Notes, with the lock held, that a replica of a lost store, or one that was never made, is gone.
    void forget(std::uint32_t r) noexcept {
        if (r >= placed_.size() || placed_[r].at.id == 0) return;
        copies_.fetch_sub(1, std::memory_order_relaxed);
        placed_[r] = {};
    }

    /// Returns the buffer's number in the group, valid while the lock is held. Nothing: the block is not live.
    std::optional<std::uint32_t> find(block b) const {
        group_block known{};
        if (!table_.find(b.id, known) || known.bytes != b.bytes) return {};
        return known.buffer;
    }

    store_usage usage() const noexcept {
        std::scoped_lock const guard(fleet_.mutex);
        store_usage            sum{live_bytes_, table_.size(), 0};
        for (store_number s = 0; s < fleet_.state.stores().size(); ++s)
            if (auto const& it = fleet_.state.stores()[s]; !is_over(it.state)) sum.capacity += it.capacity;
        return sum;
    }

    /// Returns the stores' names, and what they do but running.
    std::string describe() const {
        std::scoped_lock const guard(fleet_.mutex);
        std::string            out;
        for (store_number s = 0; s < fleet_.state.stores().size(); ++s) {
            auto const& it = fleet_.state.stores()[s];
            if (it.state == store_state::removed) continue;
            out += (out.empty() ? "" : ", ") + it.name;
            if (it.state != store_state::running) out += " (" + std::string(name_of(it.state)) + ')';
        }
        return "group of " + (out.empty() ? "no stores" : out);
    }

    fleet_core& fleet() noexcept { return fleet_; }

    /// Frees what stores have refused to free, unless they do so again.
    void free_refused() noexcept {
        for (std::size_t n = 0;; ++n) {
            refused    one;
            any_store* in = nullptr;
            {
                std::scoped_lock const guard(fleet_.mutex);
                if (refused_.size() <= n) return;
                one = refused_.front();
                in  = &members_[one.store];
            }
            result<void> const     done = in->deallocate({&one.at, 1});
            bool const             gone = done || says_lost(done.error()) || is_gone(*in, one.at);
            std::scoped_lock const guard(fleet_.mutex);
            if (refused_.empty() || refused_.front().at != one.at) continue;  // another thread was faster
            refused_.pop_front();
            if (gone) fleet_.state.give_room(one.store, one.at.bytes);
            else if (!memory_lasts([&] { refused_.push_back(one); })) return;
        }
    }

private:
    struct placed {
        block at;  ///< id 0: not made yet
    };
    struct refused {
        store_number store = 0;
        block        at{};
    };
    /// Stores that were tried, no more than one would wait for.
    class store_list {
    public:
        void                          push_back(store_number s) noexcept { all_[size_++] = s; }
        bool                          full() const noexcept { return size_ == std::size(all_); }
        std::span<store_number const> all() const noexcept { return {all_, size_}; }

    private:
        store_number all_[16]{};
        std::size_t  size_ = 0;
    };
    struct named {
        std::uint64_t id        = 0;
        std::uint8_t  alignment = 0;  ///< its logarithm
    };
    struct copying {
        any_store*   from        = nullptr;
        any_store*   to          = nullptr;
        store_number from_number = 0, to_number = 0;
        block        source;
        std::size_t  alignment = 0;
    };

    any_store& member(store_number s) {
        std::scoped_lock const guard(fleet_.mutex);
        return members_[s];
    }

    result<void> check(block b, std::size_t offset, std::size_t bytes) const {
        if (!find(b)) return make_error_code(errc::no_such_block);
        if (offset > b.bytes || bytes > b.bytes - offset) return make_error_code(errc::out_of_range);
        return {};
    }

    std::optional<store_number> hold_room(std::size_t bytes, std::optional<store_number> where,
                                          store_list const& tried, std::error_code& why) {
        std::optional<store_number> chosen;
        {
            std::scoped_lock const guard(fleet_.mutex);
            auto const&            stores = fleet_.state.stores();
            auto const             suits  = [&](store_number s) {
                return stores[s].state == store_state::running && stores[s].has_room(bytes) &&
                       std::ranges::find(tried.all(), s) == tried.all().end();
            };
            if (where) {
                if (suits(*where)) chosen = where;
                else why = stores[*where].state == store_state::lost ? errc::store_lost : errc::store_full;
            } else {
                auto const& all = stores.emptiest();
                auto const it = std::ranges::find_if(all, [&](auto const& ranked) { return suits(ranked.second); });
                if (it != all.end()) chosen = it->second;
            }
            if (chosen) fleet_.state.hold_room(*chosen, bytes);
        }
        if (!chosen || one_more()) return chosen;
        why = errc::memory_full;
        std::scoped_lock const guard(fleet_.mutex);
        fleet_.state.give_room(*chosen, bytes);
        return {};
    }

    /// Makes room for freeing one more block. Returns false if memory is full.
    bool one_more() noexcept {
        if (gather_.reserve(2 * (copies_.fetch_add(1, std::memory_order_relaxed) + 1))) return true;
        copies_.fetch_sub(1, std::memory_order_relaxed);
        return false;
    }

    /// Names a block that was made in a store.
    result<block> enter(store_number s, block made, std::size_t alignment) {
        std::uint64_t id     = 0;
        bool const    lasted = memory_lasts([&] {
            std::scoped_lock const guard(fleet_.mutex);
            fleet_.state.give_room(s, made.bytes);
            std::uint32_t const b = fleet_.state.add_buffer(made.bytes, s);
            std::uint32_t const r = fleet_.state.table().buffer(b).first;
            if (!memory_lasts([&] {
                    place(r);
                    if (named_.size() <= b) named_.resize(b + 1);
                }) ||
                !(id = table_.insert({made.bytes, b}))) {
                fleet_.state.remove_buffer(b, [](std::uint32_t) {});
                return;
            }
            placed_[r] = {made};
            named_[b]  = {id, static_cast<std::uint8_t>(std::countr_zero(alignment))};
            live_bytes_ += made.bytes;
        });
        if (lasted && id) return block{id, made.bytes};
        copies_.fetch_sub(1, std::memory_order_relaxed);
        member(s).deallocate({&made, 1});
        return make_error_code(errc::memory_full);
    }

    void place(std::uint32_t r) {
        if (placed_.size() <= r) placed_.resize(r + 1);
    }

    std::size_t copies_of(std::uint32_t b) const {
        std::size_t n     = 0;
        auto const& table = fleet_.state.table();  // what arrives is not freed at once
        table.for_each(b, [&](std::uint32_t r) { n += table[r].state != replica_state::arriving; });
        return n;
    }

    /// Ends the life of a block, with the lock held.
    void forget(block b, std::uint32_t buffer, freed_replicas& out) noexcept {
        group_block known{};
        table_.erase(b.id, known);
        live_bytes_ -= b.bytes;
        named_[buffer] = {};
        fleet_.state.remove_buffer(buffer, [&](std::uint32_t r) { gone(r, out); });
    }

    void gone(std::uint32_t r, freed_replicas& out) noexcept {
        if (r >= placed_.size() || placed_[r].at.id == 0) return;
        store_number const s = fleet_.state.table()[r].store;
        if (fleet_.state.stores()[s].state == store_state::lost) return forget(r);
        out.add(s, placed_[r].at);
        placed_[r] = {};
    }

    void free(freed_replicas& out, std::error_code& wrong) noexcept {
        out.for_each_store([&](store_number s, std::span<block const> many) {
            result<void> const done = member(s).deallocate(many);
            copies_.fetch_sub(many.size(), std::memory_order_relaxed);
            if (done || says_lost(done.error())) return;
            wrong = done.error();
            std::scoped_lock const guard(fleet_.mutex);
            for (block const b : many)
                if (memory_lasts([&] { refused_.push_back({s, b}); })) fleet_.state.hold_room(s, b.bytes);
        });
    }

    /// Calls operation(store, block) for the copy that begin(buffer, tried, freed) gives and, if that fails in a
    /// way that `goes_on` with, for the next; end(copy, error, freed) after each. begin() and end() have the lock.
    template <class Begin, class Operation, class End>
    result<void> use(block b, Begin begin, Operation operation, End end, bool (*goes_on)(std::error_code)) {
        std::error_code why;
        for (store_list tried; !tried.full();) {
            std::uint32_t r  = fleet_state::none;
            any_store*    in = nullptr;
            block         at;
            bool          live = true;
            changed([&] { return copies_of(b); },
                    [&](auto const& freed) {
                        std::optional<std::uint32_t> const buffer = find(b);
                        live                                      = buffer.has_value();
                        if (live) r = begin(*buffer, tried.all(), freed);
                        if (r == fleet_state::none) return;
                        tried.push_back(fleet_.state.table()[r].store);
                        in = &members_[tried.all().back()];
                        at = placed_[r].at;
                    });
            if (!live) return make_error_code(errc::no_such_block);
            if (r == fleet_state::none) return why ? why : make_error_code(errc::store_lost);
            result<void> const    done  = operation(*in, at);
            std::error_code const wrong = done ? std::error_code() : done.error();
            changed([&] { return copies_used_of(r); },
                    [&](auto const& freed) {
                        if (says_lost(wrong)) fleet_.state.set_state(tried.all().back(), store_state::lost);
                        if (wrong == errc::timed_out) fleet_.state.set_late(tried.all().back());
                        if (!replica_table::detached(fleet_.state.table()[r])) end(r, wrong, freed);
                        fleet_.state.end_read(r, freed);
                    });
            if (done) return done;
            why = says_lost(wrong) && (!why || why == errc::store_lost) ? make_error_code(errc::store_lost) : wrong;
            if (!goes_on(wrong)) return wrong;
        }
        return why;
    }

    std::size_t copies_of(block b) const {
        std::optional<std::uint32_t> const buffer = find(b);
        return buffer ? copies_of(*buffer) : 0;
    }
    /// Returns how many copies may be freed when who uses `r` is done.
    std::size_t copies_used_of(std::uint32_t r) const {
        replica_record const& it = fleet_.state.table()[r];
        return replica_table::detached(it) ? 1 : copies_of(it.buffer);
    }
    std::size_t copies_of(std::span<block const> many) noexcept {
        std::size_t n = 0;
        for_each_locked(fleet_.mutex, many, [&](block b) { n += copies_of(b); });
        return n;
    }

    copying copying_of(std::uint32_t from, std::uint32_t to) {
        auto const& table = fleet_.state.table();
        copying     what;
        what.from_number = table[from].store;
        what.to_number   = table[to].store;
        what.from        = &members_[what.from_number];
        what.to          = &members_[what.to_number];
        what.source      = placed_[from].at;
        what.alignment   = std::size_t{1} << named_[table[to].buffer].alignment;
        return what;
    }

    std::error_code copy(copying const& what, std::uint32_t to) {
        if (!one_more()) return make_error_code(errc::memory_full);
        result<block> const made = what.to->allocate(what.source.bytes, what.alignment);
        if (!made) {
            copies_.fetch_sub(1, std::memory_order_relaxed);
            note(what.to_number, made.error());
            return made.error();
        }
        {
            std::scoped_lock const guard(fleet_.mutex);
            placed_[to] = {*made};
        }
        result<void> const done = copy_and_verify({*what.from, what.source}, {*what.to, *made}, what.source.bytes);
        if (done) return {};
        if (std::error_code const from = answer(*what.from, what.source)) note(what.from_number, from);
        else note(what.to_number, says_lost(done.error()) ? answer(*what.to, *made) : done.error());
        return done.error();
    }

    /// Notes that a store did not take a copy, or did not give one.
    void note(store_number s, std::error_code why) {
        std::scoped_lock const guard(fleet_.mutex);
        if (says_lost(why)) fleet_.state.set_state(s, store_state::lost);
        else fleet_.state.set_refuses(s);
    }

    /// Returns what a store says of a block that it should have.
    static std::error_code answer(any_store& s, block b) {
        result<void> const r = s.read(b, 0, {});
        return r ? std::error_code() : r.error();
    }

    std::vector<store_number> others_of(std::uint32_t r) {
        std::vector<store_number> out;
        std::scoped_lock const    guard(fleet_.mutex);
        auto const&               table = fleet_.state.table();
        if (!table.has_replica(r) || table[r].state != replica_state::leaving) return out;
        table.for_each(table[r].buffer, [&](std::uint32_t other) {
            if (other != r && fleet_.state.stays(table[other])) out.push_back(table[other].store);
        });
        return out;
    }
    /// Returns what a store says of its copy of the buffer of which `r` is one.
    std::error_code ask(std::uint32_t r, store_number s) {
        any_store* in = nullptr;
        block      at;
        {
            std::scoped_lock const guard(fleet_.mutex);
            auto const&            table = fleet_.state.table();
            if (!table.has_replica(r) || table[r].state != replica_state::leaving) return {};
            table.for_each(table[r].buffer, [&](std::uint32_t other) {
                if (table[other].store == s) at = placed_[other].at;
            });
            in = &members_[s];
        }
        return at.id ? answer(*in, at) : std::error_code();
    }

    // The locks of those come after the fleet's: fork_mutex.
    block_table<group_block> table_;
    gather_space             gather_;
    mutable fleet_core       fleet_;

    // Guarded by the fleet's lock, but for a member itself.
    std::deque<any_store>    members_;
    std::deque<placed>       placed_;  // by replica
    std::deque<named>        named_;   // by buffer
    std::deque<refused>      refused_;
    std::size_t              live_bytes_ = 0;
    std::atomic<std::size_t> copies_{0};  // blocks in the stores, and those that are just being made
};

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <tenure/buffer.hpp>
#include <tenure/error.hpp>
#include <tenure/fleet/store_group.hpp>
#include <tenure/raise.hpp>

namespace tenure {

namespace detail {

/// A buffer in a group, by its number there.
class grouped_buffer {
public:
    /// Errors: not_in_group.
    template <class B>
    explicit grouped_buffer(B const& b) : block_(b.block()), store_(b.stores().front().whole()) {
        group_ = store_.get_if<group_store>();
        if (!group_) raise(error(make_error_code(errc::not_in_group), "a buffer in store " + store_.describe()));
    }

    group_core& core() const noexcept { return group_->core(); }
    fleet_core& fleet() const noexcept { return core().fleet(); }

    /// Returns f(its number), called with the lock. Errors: stale_handle, without the lock.
    template <class F>
    auto with_number(F f) const {
        {
            std::scoped_lock const guard(fleet().mutex);
            if (std::optional<std::uint32_t> const b = core().find(block_)) return f(*b);
        }
        raise(error(make_error_code(errc::stale_handle), "a buffer in store " + store_.describe()));
    }

    /// Returns which of the group's stores that is. Errors: not_in_group.
    std::uint16_t number_of(any_store const& where) const {
        group_place const* const p = where.get_if<group_place>();
        if (!p || where.whole() != store_)
            raise(error(make_error_code(errc::not_in_group),
                        "store " + where.describe() + " for a buffer in " + store_.describe()));
        return p->number();
    }

    /// Returns how many copies are there to stay.
    std::size_t copies() const {
        return with_number([&](std::uint32_t b) {
            std::size_t n = 0;
            auto const& f = fleet().state;
            f.table().for_each(b, [&](std::uint32_t r) { n += f.stays(f.table()[r]); });
            return n;
        });
    }

    /// Makes one more copy, in a store or in the emptiest; also one that is ordered there, and that nobody makes
    /// yet. Waits for one that is being made. Returns why there is none; has_it if there was one.
    refusal copy_to(std::optional<std::uint16_t> where) const {
        for (;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
            std::optional<std::uint32_t> ordered;
            bool                         waits = false;
            verdict const v = with_number([&](std::uint32_t b) { return order(b, where, ordered, waits); });
            if (ordered) return core().carry_out_copy(*ordered) ? refusal::none : refusal::no_copy;
            if (!waits) return v.why;
        }
    }

    [[noreturn]] void refuse(errc why, refusal because, std::string const& what) const {
        raise(error(make_error_code(why),
                    what + ": " + std::string(text_of(because)) + "; store " + store_.describe()));
    }

private:
    verdict order(std::uint32_t b, std::optional<std::uint16_t> where, std::optional<std::uint32_t>& ordered,
                  bool& waits) const {
        judge::orders orders;
        judge::stores among;
        if (where) among = std::span<std::uint16_t const>(&*where, 1);
        verdict const v = fleet().proposals.copy(b, orders, among);
        if (v) ordered = orders.front().replica;
        if (v.why != refusal::has_it || !where) return v;
        auto const& table = fleet().state.table();
        table.for_each(b, [&](std::uint32_t r) {
            if (table[r].store != *where) return;
            if (table[r].state != replica_state::arriving) return fleet().state.stay(r);  // if it was to leave
            waits            = true;
            auto const same  = [&](judge::order o) { return o.what == judge::order::kind::copy && o.replica == r; };
            auto const there = std::ranges::find_if(fleet().orders, same);
            if (there == fleet().orders.end()) return;
            fleet().orders.erase(there);
            ordered = r;
        });
        return v;
    }

    block        block_;
    any_store    store_;
    group_store* group_;
};

}  // namespace detail

/// Copies a buffer to another store of its group, verifies the copy, and returns when it is there; at once if there
/// is or comes one. Errors: not_in_group; store_full if the store has no room or does not run; store_lost if the
/// copying failed; stale_handle. Thread-safe, but that no thread may free the buffer meanwhile. Cost: reading the
/// bytes twice and writing them once.
template <class T>
void replicate(buffer<T> const& b, any_store const& where) {
    detail::grouped_buffer const it(b);
    refusal const                why = it.copy_to(it.number_of(where));
    if (why == refusal::none || why == refusal::has_it) return;
    bool const room = why == refusal::no_room || why == refusal::none_running;
    it.refuse(room ? errc::store_full : errc::store_lost, why, "replicate a buffer to " + where.describe());
}

/// Declares how many copies of a buffer there are to be at least, and makes them. No policy goes below that, and a
/// memory_manager makes copies anew that were lost or overwritten. 0 or 1 takes that back. Returns how many there
/// are: fewer if the group has not so many stores with room. Errors: not_in_group; limit_exceeded beyond 254
/// copies; stale_handle.
template <class T>
std::size_t replicate(buffer<T> const& b, std::size_t copies) {
    detail::grouped_buffer const it(b);
    if (copies >= detail::fleet_state::everywhere)
        raise(error(make_error_code(errc::limit_exceeded), "254 copies of a buffer can be asked for"));
    it.with_number([&](std::uint32_t n) { it.fleet().state.declare(n, static_cast<std::uint32_t>(copies)); });
    for (std::size_t n = it.copies(), failed = 0;; n = it.copies()) {
        if (n >= copies) return n;
        refusal const why = it.copy_to({});  // a store that fails is not the next one's
        if (why != refusal::none && (why != refusal::no_copy || ++failed > copies)) return it.copies();
    }
}

/// Drops the copy of a buffer in a store. Errors: replica_needed, with the reason, and nothing is dropped;
/// not_in_group; stale_handle.
template <class T>
void drop_replica(buffer<T> const& b, any_store const& where) {
    detail::grouped_buffer const it(b);
    std::uint16_t const          from = it.number_of(where);
    detail::judge::orders        orders;
    detail::verdict              v =
        it.with_number([&](std::uint32_t n) { return it.fleet().proposals.drop_for_user(n, from, orders); });
    if (v && !it.core().carry_out_drop(orders.front().replica)) v.why = refusal::last_copy;
    if (!v) it.refuse(errc::replica_needed, v.why, "drop a copy in " + where.describe());
}

/// Returns the names of the stores that have a copy of a buffer, verified. Errors: not_in_group, stale_handle.
template <class T>
std::vector<std::string> replicas(buffer<T> const& b) {
    detail::grouped_buffer const it(b);
    return it.with_number([&](std::uint32_t n) {
        std::vector<std::string> out;
        auto const&              f = it.fleet().state;
        f.table().for_each(n, [&](std::uint32_t r) {
            if (f.may_be_read(f.table()[r])) out.push_back(f.stores()[f.table()[r].store].name);
        });
        return out;
    });
}

/// Notes that a buffer is read at a store of its group, be it by others than this process: promote_demanded makes a
/// copy there if that is often. Errors: not_in_group, stale_handle. Cost: a short lock.
template <class T>
void note_demand(buffer<T> const& b, any_store const& at) {
    detail::grouped_buffer const it(b);
    std::uint16_t const          s = it.number_of(at);
    it.with_number([&](std::uint32_t n) { it.fleet().state.note_demand(n, s); });
}

}  // namespace tenure

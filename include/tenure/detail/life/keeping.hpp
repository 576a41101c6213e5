// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include <tenure/detail/batch/sharing_front.hpp>
#include <tenure/detail/life/entering.hpp>
#include <tenure/detail/life/public_calls.hpp>
#include <tenure/detail/objects/ownership_transfer.hpp>

namespace tenure::detail {

/// How objects go to the parent of their batch.

/// Writes down that an object of `bytes` was kept.
[[gnu::always_inline]] inline void note_kept(batch_record& from, batch_record& to, kept_log& log, raw_handle h,
                                             std::size_t bytes) noexcept {
    ledger& out = from.rest.books;
    ledger& in  = to.rest.books;
    note_peak(from);
    from.touch();
    out.given.add(1, bytes, true);
    to.touch();
    in.received.add(1, bytes, to.is_here());
    in.noted.store(0, std::memory_order_relaxed);
    log.add(h);
}

/// Keeps one object in the usual case: a small object without a destructor, in a unit from which the batch has
/// kept something before, no limits, no uses by other batches, and room in the log. False: another case, and
/// nothing was done. `just_ask`: only answers, whatever room the log has. The caller is in a read_section.
TENURE_SLOW inline bool keep_quickly(batch_record& from, raw_handle h, bool just_ask) noexcept {
    if (from.state.load(std::memory_order_acquire) & (batch_flags::closed | batch_flags::checkpointed))
        return false;  // before anything that its reclaimer may be changing
    batch_record* const to  = from.parent.load(std::memory_order_relaxed);
    kept_log* const     log = from.kept_out;
    if (!log || from.limited || to->closed()) return false;
    if (log->count == log->room && !just_ask) return false;
    if (h.word & (header_flag | cell_flag) || (h.word & extent_mask) - 1 >= last_unbound) return false;

    std::uintptr_t const begin = extent_begin(to_address(h.pointer), h.word);
    std::size_t const    bytes = decode_extent(h.word);
    if ((begin ^ (begin + bytes - 1)) >> unit_shift) return false;
    region* const r = find_region(begin);
    if (!r) return false;
    place const p = place_in(*r, begin);
    {
        std::scoped_lock const guard(p.u->lock);
        if (from.state.load(std::memory_order_acquire) & (batch_flags::closed | batch_flags::used)) return false;
        if ((table_word(begin).load(std::memory_order_relaxed) ^ h.word) >> generation_shift != 0) return false;
        share* const s = p.rest().shares.load(std::memory_order_relaxed);
        if (!p.u->tracked.load(std::memory_order_relaxed) || !s || s->owner != to || s->next_here) return false;
        if (p.head()->home.load(std::memory_order_relaxed) != &from || test(s->objects, begin)) return false;
        if (just_ask) return true;
        set(p, *s, begin, begin + bytes);
    }
    note_kept(from, *to, *log, h, bytes);
    return true;
}

/// Locks a unit, as std::scoped_lock does, but is always inlined.
struct unit_guard {
    [[gnu::always_inline]] explicit unit_guard(unit& u) noexcept : lock(u.lock) { lock.lock(); }
    [[gnu::always_inline]] ~unit_guard() { lock.unlock(); }
    unit_guard(unit_guard const&)            = delete;
    unit_guard& operator=(unit_guard const&) = delete;

    spin_lock& lock;
};

/// As keep_quickly(), of one object. What keep_quickly() asks of objects in general is less for most of them: those
/// whose granules are all in one word of bits.
[[gnu::always_inline]] inline bool keep_small(batch_record& from, raw_handle h) noexcept {
    constexpr auto       relaxed  = std::memory_order_relaxed;
    word_t const         granules = h.word & extent_mask;
    std::uintptr_t const begin    = extent_begin(to_address(h.pointer), h.word);
    auto const           first    = static_cast<std::uint32_t>(begin >> granule_shift) % granules_a_word;
    if (h.word & (header_flag | cell_flag) || granules == 0 || first + granules > granules_a_word)
        return keep_quickly(from, h, false);
    if (from.state.load(std::memory_order_acquire) & (batch_flags::closed | batch_flags::checkpointed))
        return false;  // before anything that its reclaimer may be changing
    batch_record* const to  = from.parent.load(relaxed);
    kept_log* const     log = from.kept_out;
    if (!log || from.limited || to->closed() || log->count == log->room) return false;
    region* const r = find_region(begin);
    if (!r) return false;
    std::size_t const n = (begin - r->base) >> unit_shift;
    std::size_t const i = word_of(begin);
    {
        unit&            u = r->units[n];
        unit_guard const guard(u);
        if (from.state.load(std::memory_order_acquire) & (batch_flags::closed | batch_flags::used)) return false;
        if ((table_word(begin).load(relaxed) ^ h.word) >> generation_shift != 0) return false;
        share* const s = r->rests[n].shares.load(relaxed);
        if (!u.tracked.load(relaxed) || !s || s->owner != to || s->next_here) return false;
        if (u.head.load(relaxed)->home.load(relaxed) != &from) return false;
        auto const          mask = static_cast<std::uint32_t>(((std::uint64_t{1} << granules) - 1) << first);
        std::uint32_t const had  = s->objects[i].load(relaxed);
        if (had & mask) return false;
        s->objects[i].store(had | mask, std::memory_order_release);
        note_change(r->tracks[n], i);
        s->granules += static_cast<std::uint32_t>(granules);
    }
    note_kept(from, *to, *log, h, granules << granule_shift);
    return true;
}

/// Places in a list. The first 64 need no memory.
class places {
public:
    /// Adds a place, above all that were added before. Returns false if memory is full.
    bool add(std::size_t place) noexcept {
        std::size_t const word = place / 64;
        if (word > words_ && !grow(word)) return false;
        (word ? more_[word - 1] : first_) |= std::uint64_t{1} << place % 64;
        return true;
    }
    bool has(std::size_t place) const noexcept {
        std::size_t const word = place / 64;
        return word <= words_ && (word ? more_[word - 1] : first_) >> place % 64 & 1;
    }

private:
    bool grow(std::size_t needed) noexcept {
        std::size_t const                room = needed * 2;
        std::unique_ptr<std::uint64_t[]> larger(new (std::nothrow) std::uint64_t[room]());
        if (!larger) return false;
        std::copy_n(more_.get(), words_, larger.get());
        more_  = std::move(larger);
        words_ = room;
        return true;
    }

    std::uint64_t                    first_ = 0;
    std::unique_ptr<std::uint64_t[]> more_;
    std::size_t                      words_ = 0;
};

/// Does one keep(): transfers objects of `from`, a batch of this thread, to its parent, all or none. `for_each(f)`
/// calls f with each raw handle and stops when f returns false. Errors: not_owner, stale_handle, why_closed() of
/// either batch, and those of prepare().
inline failure keep_all(batch_record& from, each_handle for_each) {
    if (from.closed()) return {from.why_closed(), &from};
    batch_record* const to = from.parent.load(std::memory_order_relaxed);
    if (!to) return {errc::not_owner, &from};
    if (to->closed()) return {to->why_closed(), to};

    read_section const     here;
    buffers_among          buffers;
    lane_claim const       list(&to->primary);
    idle_lanes_claim const lists(from);
    ownership_transfer     g(from, *to, buffers);
    failure                why;

    std::unique_ptr<share_transfer_front> shared;

    // What is not this batch's is not prepared. Another thread may transfer that to this batch in between.
    places      unprepared;
    std::size_t moved = 0, at = 0;
    for_each([&](raw_handle h) {
        std::size_t const here_in_list = at++;
        if (keep_quickly(from, h, true)) {
            ++moved;
            return true;
        }
        h                   = resolve(h);
        bool const prepared = is_alive(h) && owner_of(extent_of(h)) == &from;
        if (prepared) {
            why = g.prepare(h);
            if (why.code == errc::stale_handle && is_alive(h)) why.code = errc::not_owner;  // moved just now
            ++moved;
        } else if (auto const [owner, id] = find_owner(h); !owner) {
            why = {errc::stale_handle, &from};
        } else if (is_common(*owner)) {
            if (!shared) shared = front_of_sharing().begin(from, *to);
            why = shared ? shared->prepare(id, h) : failure{errc::memory_full, to, sizeof(std::uint64_t)};
            ++moved;
        } else if (owner != to && !is_above(*owner, *to)) {
            why = {errc::not_owner, &from};
        }
        if (!why && !prepared && !unprepared.add(here_in_list)) why = {errc::memory_full, to, sizeof(places)};
        return !why;
    });
    if (!why && moved) why = g.reserve_log(moved);
    if (why || !moved) return why;
    at = 0;
    for_each([&](raw_handle h) {
        if (unprepared.has(at++) || keep_quickly(from, h, false)) return true;
        h = resolve(h);
        if (is_alive(h) && g.commit(h)) g.log(h);
        return true;
    });
    if (shared) shared->commit([&](raw_handle h) { g.log(h); });
    return g.lost() ? failure{from.why_closed(), &from} : failure{};
}

}  // namespace tenure::detail

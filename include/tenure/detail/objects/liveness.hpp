// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <tenure/detail/base/cells.hpp>
#include <tenure/detail/base/config.hpp>
#include <tenure/detail/batch/batch_record.hpp>
#include <tenure/detail/objects/checked_access.hpp>
#include <tenure/detail/objects/read_section.hpp>

namespace tenure::detail {

/// The bytes that an object occupies: its entry, if it has one, then itself.
struct extent {
    std::uintptr_t begin;
    std::size_t    bytes;
    unit*          large;  ///< the run of a large object, else null
    entry*         header;

    /// Returns a granule that dies with the object. The entry's granules may outlive it (see freeing.hpp).
    std::uintptr_t probe() const noexcept { return begin + (header ? sizeof(entry) : 0); }
};

inline extent large_extent(region& r, std::uintptr_t inside) noexcept {
    unit* const head = r.at(inside)->head.load(std::memory_order_relaxed);
    return {r.base_of(head) + head->large_offset.load(std::memory_order_relaxed),
            head->large_bytes.load(std::memory_order_relaxed), head, nullptr};
}

/// Returns the extent of an object in a slab that was alive a moment ago. The caller is in a read_section. The
/// answer is certain if the object is still alive afterwards.
inline extent extent_of(raw_handle h) noexcept {
    std::uintptr_t const inside = to_address(h.pointer);
    extent               x{};
    if (h.word & extent_mask) x = {extent_begin(inside, h.word), decode_extent(h.word), nullptr, nullptr};
    else x = large_extent(*region_of(inside), inside);
    if (h.word & header_flag) x.header = reinterpret_cast<entry*>(x.begin);
    return x;
}

inline std::size_t   word_of(std::uintptr_t a) noexcept { return (a & (unit_bytes - 1)) >> (granule_shift + 5); }
inline std::uint32_t bit_of(std::uintptr_t a) noexcept { return std::uint32_t{1} << (a >> granule_shift & 31); }

inline bool test(granule_bits const& bits, std::uintptr_t a) noexcept {
    return bits[word_of(a)].load(std::memory_order_acquire) & bit_of(a);
}

/// How many generations a unit may have while something made in the first of them lives: tracking::pass tells no
/// more of them apart.
inline constexpr std::uint32_t last_pass = 0xffff'ffff;

/// Returns whether a granule was given out in a generation, `ago` generations before the unit's, and lives. Other
/// threads change what is asked in the opposite order: settle(), open_hole().
inline bool was_given_out(tracking const& t, std::uintptr_t a, word_t generation, word_t ago) noexcept {
    std::size_t const line = (a & (unit_bytes - 1)) / line_bytes;
    if (t.fresh[line / 64].load(std::memory_order_acquire) >> line % 64 & 1) return ago == 0;
    return !test(t.dead, a) &&
           t.pass[line].load(std::memory_order_acquire) == static_cast<std::uint32_t>(generation);
}

/// Number of batches of the process that are `reclaim_pending`.
TENURE_SHARED inline constinit std::atomic<std::size_t> pending_reclaims{0};

/// Returns whether the object's owner is reclaim_pending, and this is not the thread that runs its destructors.
/// `locked`: the caller has the object's lock.
bool is_reclaim_pending(raw_handle h, bool locked) noexcept;

/// Returns whether an adopted object is alive. Its cell is given back only when its record in the slab is
/// destroyed, but the object is over when the record's owner is.
TENURE_COLD inline bool adopted_alive(word_t w) noexcept {
    if (!cell_alive(w)) return false;
    if (pending_reclaims.load(std::memory_order_acquire) == 0) return true;
    cell const& c = *cells.find(w);
    return is_alive({c.record.load(std::memory_order_relaxed), c.record_word.load(std::memory_order_relaxed)}) &&
           cell_alive(w);
}

/// Asks the unit, and then the object's entry, when the table cannot answer for all handles of a unit. What was
/// asked first is asked again at the end, because each answer tells whether the next thing was still there to be
/// asked: a unit that changes hands changes its word first, and bytes are dead before they are used again. The
/// caller is in a read_section, or holds the object's lock.
inline bool alive_in_unit(raw_handle h, bool locked) noexcept {
    std::uintptr_t const inside = to_address(h.pointer);
    bool const           large  = !(h.word & extent_mask);
    std::uintptr_t const begin  = large ? inside : extent_begin(inside, h.word);
    std::uintptr_t const probe  = large || !(h.word & header_flag) ? begin : begin + sizeof(entry);
    auto&                word   = table_word(probe);
    for (;;) {
        word_t const  seen = word.load(std::memory_order_acquire);
        word_t const  ago  = generation_of(seen) - generation_of(h.word);
        region* const r    = find_region(probe);
        if (seen == 0 || ago > last_pass || !r) return false;
        auto const unit_says = [&] {
            unit const* const u = r->at(probe);
            if (large || !u->tracked.load(std::memory_order_acquire)) return ago == 0;
            return was_given_out(*r->track(u), probe, generation_of(h.word), ago);
        };
        bool alive = unit_says();
        if (alive && h.word & header_flag) {
            std::uintptr_t const header = large ? large_extent(*r, inside).begin : begin;
            alive                       = !reinterpret_cast<entry const*>(header)->looks_dead() && unit_says();
        }
        if (alive) {
            unit const* const u    = r->at(probe);
            auto const&       over = large ? u->head.load(std::memory_order_relaxed)->over : u->over;
            // Asked again, because who waits for the unit's lock there may wait for the thread that reclaims it.
            if (over.load(std::memory_order_acquire)) alive = !is_reclaim_pending(h, locked) && unit_says();
        }
        if (word.load(std::memory_order_acquire) == seen) return alive;
    }
}

}  // namespace tenure::detail

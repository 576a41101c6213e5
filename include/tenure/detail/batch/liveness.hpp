// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <tenure/detail/base/cells.hpp>
#include <tenure/detail/base/config.hpp>
#include <tenure/detail/batch/batch_record.hpp>
#include <tenure/detail/batch/read_section.hpp>

namespace tenure::detail {

/// The bytes an object occupies: its entry, if it has one, then itself.
struct extent {
    std::uintptr_t begin;
    std::size_t    bytes;
    unit*          large;  ///< the run of a large object, else null
    entry*         header;

    /// A granule that is surely the object's: its entry can outlive it (see freeing.hpp).
    std::uintptr_t probe() const noexcept { return begin + (header ? sizeof(entry) : 0); }
};

inline extent large_extent(region& r, std::uintptr_t inside) noexcept {
    unit* const head = r.at(inside)->head.load(std::memory_order_relaxed);
    return {r.base_of(head) + head->large_offset.load(std::memory_order_relaxed),
            head->large_bytes.load(std::memory_order_relaxed), head, nullptr};
}

/// Of a handle into a slab that was alive a moment ago, in the caller's read_section; right for sure where it still
/// is afterwards.
inline extent extent_of(raw_handle h) noexcept {
    std::uintptr_t const inside = to_address(h.pointer);
    extent               x{};
    if (h.word & extent_mask) x = {extent_begin(inside, h.word), decode_extent(h.word), nullptr, nullptr};
    else x = large_extent(*region_of(inside), inside);
    if (h.word & header_flag) x.header = reinterpret_cast<entry*>(x.begin);
    return x;
}

inline std::size_t   line_of(std::uintptr_t a) noexcept { return (a & (unit_bytes - 1)) >> (granule_shift + 5); }
inline std::uint32_t bit_of(std::uintptr_t a) noexcept { return std::uint32_t{1} << (a >> granule_shift & 31); }

inline bool test(granule_bits const& bits, std::uintptr_t a) noexcept {
    return bits[line_of(a)].load(std::memory_order_acquire) & bit_of(a);
}

/// How many batches of the process are `reclaim_pending`.
TENURE_SHARED inline constinit std::atomic<std::size_t> pending_reclaims{0};

/// Whether the object's owner is reclaim_pending, and this is not the thread that runs its destructors. `locked`:
/// under the object's lock.
bool is_reclaim_pending(raw_handle h, bool locked) noexcept;

[[gnu::always_inline]] inline bool is_alive(raw_handle h, bool locked = false) noexcept;

/// What was adopted gives its cell back when its record in the slab is destroyed; but it is over with that.
TENURE_COLD inline bool adopted_alive(word_t w) noexcept {
    if (!cell_alive(w)) return false;
    if (pending_reclaims.load(std::memory_order_acquire) == 0) return true;
    cell const& c = *cells.find(w);
    return is_alive({c.record.load(std::memory_order_relaxed), c.record_word.load(std::memory_order_relaxed)}) &&
           cell_alive(w);
}

/// Asks the unit, and then the object's entry, where the table no longer vouches for all handles of a unit. What is
/// asked first is asked again in the end, for each tells whether the next was still there to be asked: a unit that
/// changes hands changes its word first, and bytes that are used again are dead before. The caller is in a
/// read_section, or holds the object's lock.
inline bool alive_in_unit(raw_handle h, bool locked) noexcept {
    std::uintptr_t const inside = to_address(h.pointer);
    bool const           large  = !(h.word & extent_mask);
    std::uintptr_t const begin  = large ? inside : extent_begin(inside, h.word);
    std::uintptr_t const probe  = large || !(h.word & header_flag) ? begin : begin + sizeof(entry);
    auto&                word   = table_word(probe);
    for (;;) {
        word_t const  seen  = word.load(std::memory_order_acquire);
        word_t const  above = generation_of(h.word) - generation_of(seen);
        region* const r     = find_region(probe);
        if (seen == 0 || above > 255 || !r) return false;
        auto const unit_says = [&] {
            unit const* const u = r->at(probe);
            if (large || !u->tracked.load(std::memory_order_acquire)) return above == 0;
            tracking const& t = *r->track(u);
            return t.pass[line_of(probe)].load(std::memory_order_acquire) == above && !test(t.dead, probe);
        };
        bool alive = unit_says();
        if (alive && h.word & header_flag) {
            std::uintptr_t const header = large ? large_extent(*r, inside).begin : begin;
            alive                       = !reinterpret_cast<entry const*>(header)->looks_dead() && unit_says();
        }
        if (alive) {
            unit const* const u    = r->at(probe);
            auto const&       over = large ? u->head.load(std::memory_order_relaxed)->over : u->over;
            if (over.load(std::memory_order_acquire)) alive = !is_reclaim_pending(h, locked);
        }
        if (word.load(std::memory_order_acquire) == seen) return alive;
    }
}

/// A section must not end under a lock, nor does it have to begin there: who has the lock of a unit has come to it
/// in a section of their own, or holds the batch.
TENURE_SLOW inline bool alive_guarded(raw_handle h, bool locked) noexcept {
    if (h.word == 0) return false;
    if (h.word & cell_flag) return adopted_alive(h.word);
    if (locked) return alive_in_unit(h, true);
    read_section const here;
    return alive_in_unit(h, false);
}

/// The check of every access: one hot load and a compare. Thread-safe; what it says holds as long as nobody frees
/// the object meanwhile.
[[gnu::always_inline]] inline bool is_alive(raw_handle h, bool locked) noexcept {
    word_t const seen = table_word(to_address(h.pointer)).load(std::memory_order_relaxed);
    if ((seen ^ h.word) >> generation_shift == 0) [[likely]]
        return true;
    return alive_guarded(h, locked);
}

}  // namespace tenure::detail

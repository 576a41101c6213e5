// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>

#include <tenure/detail/paging/page_space.hpp>
#include <tenure/detail/unit/region.hpp>
#include <tenure/detail/unit/write_fault.hpp>

namespace tenure::detail {

/// Moves pages between memory and the page file, a range at a time.

/// Flags of a page in pagemap (Linux, Documentation/admin-guide/mm/pagemap.rst). A page of a private file mapping
/// that was written to is anonymous, no longer the file's. So no fault is needed to know the changed pages.
inline constexpr std::uint64_t page_present = std::uint64_t{1} << 63, page_swapped = std::uint64_t{1} << 62,
                               page_of_file = std::uint64_t{1} << 61;

inline bool is_private(std::uint64_t entry) noexcept {
    return entry & (page_present | page_swapped) && !(entry & page_of_file);
}

/// Calls f(begin, end) for each stretch of pages that hold what the file does not; for all the rest if the system
/// does not tell. Stops and returns false once f returns false.
template <class F>
bool for_private_pages(int pagemap, std::uintptr_t begin, std::uintptr_t end, F f) {
    std::size_t const page    = page_bytes();
    std::uintptr_t    pending = 0;  // the begin of a stretch whose end is not known yet; 0: none
    for (std::uintptr_t at = begin; at < end;) {
        std::array<std::uint64_t, 2048> entries;
        std::size_t const               n = std::min(entries.size(), (end - at) / page);
        std::span const part              = std::as_writable_bytes(std::span(entries)).first(n * sizeof entries[0]);
        if (pagemap < 0 || !read_whole(pagemap, at / page * sizeof entries[0], part))
            return f(pending ? pending : at, end);
        for (std::size_t i = 0; i < n; ++i, at += page) {
            bool const here = is_private(entries[i]);
            if (here && !pending) pending = at;
            if (here || !pending) continue;
            if (!f(pending, at)) return false;
            pending = 0;
        }
    }
    return !pending || f(pending, end);
}

/// Calls f(part, here) for each stretch of units of `r` for which is(place) returns the same value, `here`.
template <class Is, class F>
void for_stretches(paged_range const& r, Is is, F f) {
    for (std::uintptr_t from = r.begin, to = from; from < r.end(); from = to) {
        bool const here = is(place_at(from));
        for (to = from + unit_bytes; to < r.end() && is(place_at(to)) == here;) to += unit_bytes;
        f(paged_range{from, to - from, {r.where.offset + (from - r.begin), to - from}, r.copied}, here);
    }
}

/// Returns whether the unit is still mapped as the batch with that id left it when it last went out.
inline bool is_filed_by(std::uint64_t id, place p) noexcept {
    return p.rest().filed.load(std::memory_order_relaxed) == id;
}

inline void set_filed(paged_range const& r, std::uint64_t id) noexcept {
    for (std::uintptr_t a = r.begin; a < r.end(); a += unit_bytes)
        rest_at(a).filed.store(id, std::memory_order_relaxed);
}

/// Returns whether two pages are equal, even if checking tools regard them as inaccessible.
TENURE_OPTIMISTIC inline bool same_page(std::uintptr_t a, std::uintptr_t b) noexcept {
    auto const* x = static_cast<std::uint64_t const*>(to_pointer(a));
    auto const* y = static_cast<std::uint64_t const*>(to_pointer(b));
    for (std::size_t i = 0; i < page_bytes() / sizeof *x; ++i)
        if (x[i] != y[i]) return false;
    return true;
}

/// Calls f(begin, end) for each stretch of pages that differ from the file; for a whole part of the range if the
/// file cannot be read there. Stops and returns false once f returns false.
template <class F>
bool for_changed_pages(int fd, paged_range const& r, F f) {
    constexpr std::size_t most = std::size_t{32} << 20;  // mapped at a time, because that counts as resident
    for (std::uintptr_t begin = r.begin, end = begin; begin < r.end(); begin = end) {
        end = std::min(begin + most, r.end());
        mapped_part const was(fd, r.where.offset + (begin - r.begin), end - begin);
        std::uintptr_t    from = begin;
        for (std::uintptr_t at = begin; at < end && was; at += page_bytes()) {
            if (!same_page(at, to_address(was.begin()) + (at - begin))) continue;
            if (from < at && !f(from, at)) return false;
            from = at + page_bytes();
        }
        if (from < end && !f(from, end)) return false;
    }
    return true;
}

/// Says which pages of a range may differ from the file.
enum class suspects { all, those_written, those_changed };

/// Writes those pages to the file, and adds their size to `bytes`. Errors: what the system says.
inline std::error_code write_pages(page_space& space, paged_range const& r, suspects which, std::size_t& bytes) {
    int const  fd    = space.opened()->fd();
    auto const write = [&](std::uintptr_t begin, std::uintptr_t end) {
        if (!write_unchecked(fd, to_pointer(begin), end - begin, r.where.offset + (begin - r.begin))) return false;
        space.written.fetch_add(end - begin, std::memory_order_relaxed);
        bytes += end - begin;
        return true;
    };
    quiet_tools const quiet;
    bool              done = false;
    switch (which) {
    case suspects::all: done = write(r.begin, r.end()); break;
    case suspects::those_written: done = for_private_pages(space.pagemap(), r.begin, r.end(), write); break;
    case suspects::those_changed: done = for_changed_pages(fd, r, write); break;
    }
    return done ? std::error_code() : io_code(errno);
}

/// Drops the contents of the range and makes it ordinary memory again. If the system refuses, the range keeps its
/// mapping and can be used all the same.
inline void make_anonymous(paged_range const& r) noexcept {
    if (!map_anonymous_at(to_pointer(r.begin), r.bytes)) return unprotect(to_pointer(r.begin), r.bytes);
    set_filed(r, 0);
    auto const is_huge = [](place p) { return p.u->huge; };
    for_stretches(r, is_huge, [](paged_range const& s, bool huge) {
        if (huge) ask_huge_pages(to_pointer(s.begin), s.bytes);
    });
}

/// Writes to each page what it holds, by an exchange, which compilers leave alone.
TENURE_OPTIMISTIC inline void touch_pages(std::uintptr_t begin, std::uintptr_t end) noexcept {
    for (std::uintptr_t a = begin; a < end; a += page_bytes()) {
        auto* const   byte  = static_cast<unsigned char*>(to_pointer(a));
        unsigned char there = __atomic_load_n(byte, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(byte, &there, there, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    }
}

/// Copies what the batch with that id mapped from the file and another batch owns now, so that the file is no
/// longer needed. The owner may use the memory meanwhile, and even map it anew. Returns false if something could
/// not be read; the file must then keep it.
inline bool part_from_file(paged_range const& r, std::uint64_t id) noexcept {
    bool       all = true;
    auto const is  = [&](place p) { return is_filed_by(id, p); };
    for_stretches(r, is, [&](paged_range const& s, bool filed) {
        if (!filed) return;
        switch (populate_private(to_pointer(s.begin), s.bytes)) {
        case populated::yes: break;
        case populated::no: all = false; break;
        case populated::unknown: touch_pages(s.begin, s.end());
        }
    });
    return all;
}

/// Replaces the range by a copy of itself in huge pages. Returns false, and changes nothing, if the system
/// refuses.
inline bool move_to_huge_pages(paged_range const& r) noexcept {
    // Keeps the range's offset in a huge page, so that huge pages move whole.
    std::size_t const skip = r.begin % region_grain;
    auto* const       base = static_cast<std::byte*>(reserve_aligned(skip + r.bytes, region_grain));
    if (!base) return false;
    if (skip) give_back(base, skip);
    void* const copy = base + skip;
    ask_huge_pages(copy, r.bytes);

    quiet_tools const quiet;
    write_fault const moving(r.begin, r.end());
    void* const       at   = to_pointer(r.begin);
    bool              done = protect(at, r.bytes, PROT_READ) && populate(at, r.bytes);
    if (done) {
        copy_unchecked(copy, at, r.bytes);
        done = move_pages(copy, r.bytes, at);
    }
    if (!done) {
        give_back(copy, r.bytes);
        unprotect(at, r.bytes);
        return false;
    }
    set_filed(r, 0);
    for (std::uintptr_t a = r.begin; a < r.end(); a += unit_bytes) place_at(a).u->huge = true;
    return true;
}

/// Moves the range to huge pages in parts, so that never all of it exists twice. Returns false if a part fails.
inline bool move_in_parts(paged_range const& r) noexcept {
    constexpr std::size_t most = 16 * region_grain;
    for (std::uintptr_t from = r.begin, to = from; from < r.end(); from = to) {
        to = std::min((from / most + 1) * most, r.end());
        if (!move_to_huge_pages({from, to - from, {}})) return false;
    }
    return true;
}

/// Brings in at once, in huge pages where they fit, each range whose units are all still as the batch left them;
/// for batches of which most changes each time. Page by page, each write to a page would cost a fault and a copy,
/// more than all the rest. A comparison with the file (for_changed_pages) then tells what changed. Where the system
/// refuses, pages come in as they are touched.
inline void bring_in(paged_batch& p, std::uint64_t id) noexcept {
    for (paged_range& r : p.ranges) {
        bool here = !r.copied;
        for (std::uintptr_t a = r.begin; a < r.end() && here; a += unit_bytes) here = is_filed_by(id, place_at(a));
        if (!here) continue;
        if (r.bytes >= region_grain) r.copied = move_in_parts(r);
        else r.copied = populate_private(to_pointer(r.begin), r.bytes) == populated::yes;
    }
}

}  // namespace tenure::detail

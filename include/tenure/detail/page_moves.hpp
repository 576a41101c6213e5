// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>

#include <tenure/detail/page_space.hpp>
#include <tenure/detail/transit.hpp>

namespace tenure::detail {

/// Pages from memory to the page file and back, a range at a time.

/// What pagemap says of a page (Linux, Documentation/admin-guide/mm/pagemap.rst). A page of a private file mapping
/// that was written to is anonymous, and no longer the file's: so what changed is known without a fault for it.
inline constexpr std::uint64_t page_present = std::uint64_t{1} << 63, page_swapped = std::uint64_t{1} << 62,
                               page_of_file = std::uint64_t{1} << 61;

inline bool is_private(std::uint64_t entry) noexcept {
    return entry & (page_present | page_swapped) && !(entry & page_of_file);
}

/// Calls f(begin, end) for stretches of pages that hold what the file does not; for all, where the system does not
/// tell. False as soon as f is.
template <class F>
bool for_private_pages(int pagemap, std::uintptr_t begin, std::uintptr_t end, F f) {
    std::size_t const page    = page_bytes();
    std::uintptr_t    pending = 0;  // the begin of a stretch whose end is not known yet
    for (std::uintptr_t at = begin; at < end;) {
        std::array<std::uint64_t, 2048> entries;
        std::size_t const               n = std::min(entries.size(), (end - at) / page);
        std::span const part              = std::as_writable_bytes(std::span(entries)).first(n * sizeof entries[0]);
        if (pagemap < 0 || !read_whole(pagemap, at / page * sizeof entries[0], part)) return f(begin, end);
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

/// Writes the pages of a range that the file does not have. `all`: whatever the system says of them, for they may
/// be another file range's.
inline std::error_code write_pages(page_space& space, paged_range const& r, bool all) {
    int const  fd    = space.opened()->fd();
    auto const write = [&](std::uintptr_t begin, std::uintptr_t end) {
        if (!write_unchecked(fd, to_pointer(begin), end - begin, r.where.offset + (begin - r.begin))) return false;
        space.written.fetch_add(end - begin, std::memory_order_relaxed);
        return true;
    };
    bool const done = all ? write(r.begin, r.end()) : for_private_pages(space.pagemap(), r.begin, r.end(), write);
    return done ? std::error_code() : io_code(errno);
}

template <class F>
void for_units_of(paged_range const& r, F f) {
    for (std::uintptr_t a = r.begin; a < r.end(); a += unit_bytes) f(place_at(a));
}

/// The range is ordinary memory again, with nothing in it.
inline bool make_anonymous(paged_range const& r) noexcept {
    if (!map_anonymous_at(to_pointer(r.begin), r.bytes)) return false;
    for_units_of(r, [](place p) {
        p.u->filed.store(false, std::memory_order_relaxed);
        if (p.u->huge) ask_huge_pages(to_pointer(p.base), unit_bytes);
    });
    return true;
}

/// As memcpy, of memory that checking tools may know as nobody's.
TENURE_OPTIMISTIC inline void copy_unchecked(void* to, void const* from, std::size_t bytes) noexcept {
    auto*       out = static_cast<std::uint64_t volatile*>(to);
    auto const* in  = static_cast<std::uint64_t const volatile*>(from);
    for (std::size_t i = 0; i < bytes / sizeof *in; ++i) out[i] = in[i];
}

/// The range is ordinary memory again, with what was in it. False: the system refused, and it is as it was.
inline bool bring_back(paged_range const& r) noexcept {
    transit const moving(r.begin, r.end());
    void* const   copy = reserve(r.bytes, access::read_write);
    if (!copy) return false;
    bool done = protect(to_pointer(r.begin), r.bytes, PROT_READ);
    if (done) {
        copy_unchecked(copy, to_pointer(r.begin), r.bytes);
        done = move_pages(copy, r.bytes, to_pointer(r.begin));
    }
    if (!done) {
        give_back(copy, r.bytes);
        protect(to_pointer(r.begin), r.bytes, PROT_READ | PROT_WRITE);
        return false;
    }
    for_units_of(r, [](place p) { p.u->filed.store(false, std::memory_order_relaxed); });
    return true;
}

}  // namespace tenure::detail

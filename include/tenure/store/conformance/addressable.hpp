// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include <tenure/detail/base/os.hpp>
#include <tenure/store/conformance/subject.hpp>

namespace tenure::detail::conformance {

inline std::byte* address(subject& s, block b, std::source_location at = std::source_location::current()) {
    auto const p = s.store.try_address(b);
    s.succeeds(p, "address", at);
    s.expect(*p != nullptr, "the address of a live block is null", at);
    return *p;
}

/// Checks that a live block's address stays, and that blocks do not overlap.
inline void addresses(subject& s) {
    std::vector<block>      live;
    std::vector<std::byte*> at;
    for (std::size_t i = 0; i < 300; ++i) {
        std::size_t const n = i % 5 == 0 ? 0 : i * 211 % 3000;
        s.figure("bytes", n);
        live.push_back(s.allocate(n));
        at.push_back(address(s, live.back()));
        if (i % 3 != 0) continue;  // other blocks come and go meanwhile
        s.free(s.allocate(n + 1));
    }
    s.fill(live.back(), 1);
    for (std::size_t i = 0; i < live.size(); ++i) {
        s.figure("bytes", live[i].bytes);
        s.expect(address(s, live[i]) == at[i], "the address of a live block has changed");
    }
    std::vector<std::pair<std::uintptr_t, std::size_t>> places;
    for (std::size_t i = 0; i < live.size(); ++i)
        if (live[i].bytes != 0) places.emplace_back(reinterpret_cast<std::uintptr_t>(at[i]), live[i].bytes);
    std::ranges::sort(places);
    for (std::size_t i = 1; i < places.size(); ++i)
        s.expect(places[i - 1].first + places[i - 1].second <= places[i].first,
                 "two live blocks overlap in memory");
    s.free(live);
}

/// Checks that a block's memory, read() and write() agree on its contents.
inline void address_and_contents(subject& s) {
    for (std::size_t const n : {1u, 100u, 4096u, 100'000u}) {
        s.figure("bytes", n);
        block const                b = s.allocate(n);
        std::span<std::byte> const memory(address(s, b), n);
        s.fill(b, 1);
        s.expect_contents(memory, pattern(1, n));
        std::ranges::copy(pattern(2, n), memory.begin());
        s.expect_filled(b, 2);
        bytes model  = pattern(2, n);
        model.back() = memory.back() = std::byte{0x5a};
        s.succeeds(s.store.write(b, 0, std::span(model).first(1)), "write");
        s.expect_contents(memory, model);
        s.expect_contents(s.contents(b), model);
        s.free(b);
    }
}

/// Checks that whole pages of private anonymous memory read as zero after MADV_DONTNEED.
inline void anonymous_memory(subject& s) {
    std::size_t const          page = page_bytes();
    std::size_t const          n    = 16 * page;
    block const                b    = s.allocate_filled(n + 100, 1);
    std::span<std::byte> const memory(address(s, b), n + 100);

    auto const        begin = reinterpret_cast<std::uintptr_t>(memory.data());
    std::size_t const skip  = (page - begin % page) % page;
    std::size_t const whole = 8 * page;
    if (!drop_pages(memory.data() + skip, whole)) s.fail("madvise(MADV_DONTNEED) of whole pages inside a block");
    bytes model = pattern(1, n + 100);
    std::memset(model.data() + skip, 0, whole);
    s.expect_contents(memory, model);
    s.expect_contents(s.contents(b), model);
    s.fill(b, 2);
    s.expect_filled(b, 2);
    s.free(b);
}

}  // namespace tenure::detail::conformance

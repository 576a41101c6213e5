// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include <tenure/detail/base/os.hpp>
#include <tenure/store/conformance/subject.hpp>

namespace tenure::detail::conformance {

/// Compares random reads and writes with a copy: a write changes its range alone.
inline void ranges(subject& s) {
    dice d(1);
    for (std::size_t const n : {1u, 7u, 64u, 4097u, 65'537u}) {
        block const b     = s.allocate(n);
        bytes       model = pattern(n, n);
        s.fill(b, n);
        for (std::uint64_t i = 1; i <= 60; ++i) {
            std::size_t const from  = below(d, n + 1);
            std::size_t const count = below(d, n - from + 1);
            s.figure("bytes", n);
            s.figure("offset", from);
            s.figure("size", count);
            bytes const in = pattern(i << 32, count);
            s.succeeds(s.store.write(b, from, in), "write");
            std::ranges::copy(in, model.begin() + static_cast<std::ptrdiff_t>(from));

            std::size_t const at = below(d, n + 1);
            bytes             out(below(d, n - at + 1));
            s.figure("offset", at);
            s.figure("size", out.size());
            s.succeeds(s.store.read(b, at, out), "read");
            s.expect_contents(out, std::span(model).subspan(at, out.size()));
        }
        s.figure("offset", 0);
        s.figure("size", n);
        s.expect_contents(s.contents(b), model);
        s.succeeds(s.store.write(b, n, {}), "write of nothing at the end");
        s.succeeds(s.store.read(b, n, {}), "read of nothing at the end");
        s.free(b);
    }
}

/// Checks that writes, frees and new blocks in old places change no other block.
inline void blocks_apart(subject& s) {
    std::vector<block>         live;
    std::vector<std::uint64_t> seeds;
    std::uint64_t              seed = 0;
    for (std::size_t i = 0; i < 90; ++i) {
        live.push_back(s.allocate_filled(i % 3 == 0 ? 4096 : 1 + i * 7, seed));
        seeds.push_back(seed++);
    }
    auto const expect_all = [&] {
        for (std::size_t i = 0; i < live.size(); ++i) {
            s.figure("block", i);
            s.expect_filled(live[i], seeds[i]);
        }
    };
    expect_all();
    for (std::size_t i = 0; i < live.size(); i += 2) s.fill(live[i], seeds[i] = seed++);
    expect_all();
    for (std::size_t i = 1; i < live.size(); i += 2) {
        s.free(live[i]);
        live[i] = s.allocate_filled(live[i].bytes, seeds[i] = seed++);
    }
    expect_all();
    s.free(live);
}

struct range {
    std::size_t offset, size;
};

/// Ranges beyond a block of 100 bytes. The last ones end inside it if the sum overflows.
inline constexpr range beyond_100[] = {
    {100, 1},     {99, 2},      {0, 101}, {101, 0}, {101, 1}, {4096, 8}, {std::size_t{1} << 32, 1},
    {top - 3, 3}, {top - 3, 8}, {top, 0}, {top, 50}};

inline void reads_out_of_range(subject& s) {
    block const before = s.allocate_filled(100, 1), b = s.allocate_filled(100, 2),
                after = s.allocate_filled(100, 3);
    for (range const r : beyond_100) {
        s.figure("offset", r.offset);
        s.figure("size", r.size);
        bytes const untouched = pattern(4, r.size);
        bytes       out       = untouched;
        s.refused(s.store.read(b, r.offset, out), errc::out_of_range, "read beyond the end");
        s.expect(out == untouched, "a read that was refused left something in its span");
    }
    s.free(std::vector{before, b, after});
}

inline void writes_out_of_range(subject& s) {
    block const before = s.allocate_filled(100, 1), b = s.allocate_filled(100, 2),
                after = s.allocate_filled(100, 3);
    for (range const r : beyond_100) {
        s.figure("offset", r.offset);
        s.figure("size", r.size);
        s.refused(s.store.write(b, r.offset, pattern(4, r.size)), errc::out_of_range, "write beyond the end");
        s.expect_filled(before, 1);
        s.expect_filled(b, 2);
        s.expect_filled(after, 3);
    }
    s.free(std::vector{before, b, after});
}

inline auto place(bytes& b, std::size_t offset) { return b.begin() + static_cast<std::ptrdiff_t>(offset); }

inline void copies(subject& s) {
    for (std::size_t const n : {1u, 100u, 4097u, 200'000u}) {
        block const from = s.allocate_filled(n, 1), to = s.allocate_filled(n + 50, 2);
        bytes       source = pattern(1, n), model = pattern(2, n + 50);
        dice        d(n);
        for (int i = 0; i < 30; ++i) {
            std::size_t const size = below(d, n + 1);
            std::size_t const at   = below(d, n - size + 1);
            std::size_t const into = below(d, n + 50 - size + 1);
            s.figure("from offset", at);
            s.figure("to offset", into);
            s.figure("size", size);
            s.succeeds(s.store.try_copy(from, at, to, into, size), "copy");
            std::copy_n(place(source, at), size, place(model, into));
            s.expect_contents(s.contents(to), model);
        }
        s.expect_contents(s.contents(from), source);
        s.succeeds(s.store.try_copy(from, n, to, n + 50, 0), "copy of nothing at the end");
        s.free(std::vector{from, to});
    }
}

inline void copies_within_a_block(subject& s) {
    block const b     = s.allocate_filled(1000, 1);
    bytes       model = pattern(1, 1000);
    for (auto const [at, into, size] : {std::array<std::size_t, 3>{0, 500, 500}, {700, 10, 200}, {1, 0, 1}}) {
        s.figure("from offset", at);
        s.figure("to offset", into);
        s.figure("size", size);
        s.succeeds(s.store.try_copy(b, at, b, into, size), "copy within a block");
        std::copy_n(place(model, at), size, place(model, into));
        s.expect_contents(s.contents(b), model);
    }
    s.free(b);
}

/// Checks that a range beyond either block is refused, with nothing copied.
inline void copies_out_of_range(subject& s) {
    block const        hundred = s.allocate_filled(100, 1), more = s.allocate_filled(10'000, 2);
    std::vector<range> all(std::begin(beyond_100), std::end(beyond_100));
    for (std::size_t const n : {0u, 1u, 50u})
        for (std::size_t const size : {top, top - n + 1, std::size_t{1} << 63})  // offset + size may wrap to 0
            if (size != 0) all.push_back({n, size});
    for (range const r : all) {
        s.figure("offset", r.offset);
        s.figure("size", r.size);
        s.refused(s.store.try_copy(hundred, r.offset, more, 0, r.size), errc::out_of_range,
                  "copy from beyond the end");
        s.refused(s.store.try_copy(more, 0, hundred, r.offset, r.size), errc::out_of_range,
                  "copy to beyond the end");
        s.expect_filled(hundred, 1);
        s.expect_filled(more, 2);
    }
    s.free(std::vector{hundred, more});
}

inline std::byte* address(subject& s, block b, caller at = caller::current()) {
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

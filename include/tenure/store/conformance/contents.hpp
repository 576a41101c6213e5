// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

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
    s.expect_usage(0, 0);
}

struct range {
    std::size_t offset, size;
};

/// Ranges beyond a block of 100 bytes. The last ones end inside it if the sum overflows.
inline constexpr range beyond_100[] = {{100, 1},
                                       {99, 2},
                                       {0, 101},
                                       {101, 0},
                                       {101, 1},
                                       {4096, 8},
                                       {std::size_t{1} << 32, 1},
                                       {std::numeric_limits<std::size_t>::max() - 3, 3},
                                       {std::numeric_limits<std::size_t>::max() - 3, 8},
                                       {std::numeric_limits<std::size_t>::max(), 0},
                                       {std::numeric_limits<std::size_t>::max(), 50}};

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
    for (block const x : {before, b, after}) s.free(x);
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
    for (block const x : {before, b, after}) s.free(x);
}

}  // namespace tenure::detail::conformance

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <limits>
#include <vector>

#include <tenure/store/conformance/contents.hpp>
#include <tenure/store/conformance/subject.hpp>

namespace tenure::detail::conformance {

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
    s.expect_usage(0, 0);
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
    block const           hundred = s.allocate_filled(100, 1), more = s.allocate_filled(10'000, 2);
    constexpr std::size_t top = std::numeric_limits<std::size_t>::max();
    std::vector<range>    all(std::begin(beyond_100), std::end(beyond_100));
    for (std::size_t const n :
         {std::size_t{0}, std::size_t{1}, std::size_t{50}})  // offset + size is 0, or wraps to it
        for (std::size_t const size : {top, top - n + 1, std::size_t{1} << 63}) {
            if (size == 0) continue;
            all.push_back({n, size});
        }
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

}  // namespace tenure::detail::conformance

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include <tenure/store/conformance/subject.hpp>

namespace tenure::detail::conformance {

inline void sizes(subject& s) {
    std::vector<block> live;
    std::size_t        held = 0;
    for (std::size_t const n :
         {0u, 1u, 2u, 7u, 8u, 63u, 64u, 65u, 4095u, 4096u, 4097u, 65'535u, 65'536u, 65'537u}) {
        s.figure("bytes", n);
        live.push_back(s.allocate_filled(n, n));
        s.expect_usage(held += n, live.size());
    }
    for (block const b : live) s.expect_filled(b, b.bytes);
    s.free(live);
    s.expect_usage(0, 0);

    std::size_t largest = 65'537;
    for (std::size_t n = std::size_t{1} << 20; n / 2 < s.options.max_bytes; n *= 4) {
        for (std::size_t const exact : {n - 1, n, n + 1}) {
            if (exact > s.options.max_bytes || exact > s.room()) continue;
            s.figure("bytes", exact);
            block const b = s.allocate_filled(exact, exact);
            s.expect_usage(exact, 1);
            s.expect_filled(b, exact);
            s.free(b);
            s.expect_usage(0, 0);
            largest = exact;
        }
    }
    s.note = "0 to " + std::to_string(largest) + " bytes";
}

inline void zero_bytes(subject& s) {
    std::vector<block>                many;
    std::unordered_set<std::uint64_t> ids;
    for (std::size_t i = 0; i < 100; ++i) {
        many.push_back(s.allocate(0));
        s.expect(ids.insert(many.back().id).second, "two blocks of zero bytes have the same id");
    }
    s.expect_usage(0, many.size());
    std::byte one[1]{};
    for (block const b : many) {
        s.succeeds(s.store.read(b, 0, {}), "read of nothing from a block of zero bytes");
        s.succeeds(s.store.write(b, 0, {}), "write of nothing to a block of zero bytes");
        s.refused(s.store.read(b, 0, one), errc::out_of_range, "read of one byte from a block of zero bytes");
        s.refused(s.store.write(b, 0, one), errc::out_of_range, "write of one byte to a block of zero bytes");
    }
    s.free(many);
    expect_not_live(s, many.front());
}

inline void expect_aligned(subject& s, block b, std::size_t alignment) {
    if (!s.can().addressable) return;
    auto const p = s.store.try_address(b);
    s.succeeds(p, "address");
    s.expect_equal(reinterpret_cast<std::uintptr_t>(*p) % alignment, 0, "the address modulo its alignment");
}

inline void alignments(subject& s) {
    constexpr std::size_t page = 4096;
    std::vector<block>    live;
    std::size_t           largest = 0;
    for (std::size_t a = 1; a <= 65'536; a *= 2) {
        for (std::size_t const n : {0u, 1u, 100u, 5000u}) {
            s.figure("alignment", a);
            s.figure("bytes", n);
            if (a > page) {  // a store may refuse so large an alignment
                auto const r = s.store.allocate(n, a);
                if (!r) {
                    s.refused(r, errc::bad_alignment, "allocate with an alignment above a page");
                    continue;
                }
                live.push_back(*r);
            } else {
                live.push_back(s.allocate(n, a));
            }
            largest = a;
            expect_aligned(s, live.back(), a);
        }
    }
    s.free(live);
    s.note = "1 to " + std::to_string(largest) + " bytes";
}

inline void bad_alignments(subject& s) {
    for (std::size_t const a : {std::size_t{0}, std::size_t{3}, std::size_t{12}, std::size_t{4097}, top}) {
        for (std::size_t const n : {0u, 64u}) {
            s.figure("alignment", a);
            s.figure("bytes", n);
            s.refused(s.store.allocate(n, a), errc::bad_alignment,
                      "allocate with an alignment that is no power of two");
            s.expect_usage(0, 0);
        }
    }
}

/// Checks that sizes beyond any machine fail, however the store rounds them and whatever the alignment adds.
inline void absurd_sizes(subject& s) {
    block const bystander = s.allocate_filled(100, 1);
    for (std::size_t const n :
         {std::size_t{1} << 62, std::size_t{1} << 63, top - (std::size_t{1} << 30) + 1, top - 65'536, top - 65'535,
          top - 4095, top - 63, top - 15, top - 7, top - 1, top}) {
        for (std::size_t const a :
             {std::size_t{1}, std::size_t{8}, std::size_t{16}, std::size_t{64}, std::size_t{4096},
              std::size_t{1} << 16, std::size_t{1} << 30, std::size_t{1} << 32, std::size_t{1} << 63}) {
            s.figure("bytes", n);
            s.figure("alignment", a);
            s.expect(!s.store.allocate(n, a).has_value(), "allocate of an absurd size succeeded");
            s.expect_usage(100, 1);
        }
    }
    s.expect_filled(bystander, 1);
    s.free(bystander);
}

/// Checks powers of two beyond the address space. Any will do for blocks without an address.
inline void absurd_alignments(subject& s) {
    block const bystander = s.allocate_filled(100, 1);
    for (int const bit : {47, 48, 61, 62, 63}) {
        std::size_t const a = std::size_t{1} << bit;
        for (std::size_t const n : {0u, 1u, 64u, 5000u}) {
            s.figure("alignment", a);
            s.figure("bytes", n);
            if (auto const b = s.store.allocate(n, a)) {
                expect_aligned(s, *b, a);
                s.free(*b);
            }
            s.expect_usage(100, 1);
        }
    }
    s.expect_filled(bystander, 1);
    s.free(bystander);
}

inline void ids(subject& s) {
    std::unordered_set<std::uint64_t> seen;
    auto const                        take = [&](std::size_t n) {
        block const b = s.allocate(n);
        s.figure("id", b.id);
        s.expect(seen.insert(b.id).second, "an id was given out twice");
        return b;
    };
    std::size_t const  goal = s.options.free_count / 10;
    std::vector<block> batch;
    while (seen.size() < goal) {
        s.free(take(seen.size() % 50));
        for (std::size_t i = 0; i < 30; ++i) batch.push_back(take(i));
        s.free(batch);
        batch.clear();
    }
    s.note = std::to_string(seen.size()) + " blocks";
}

/// Checks that usage() is exact after every call, at rest.
inline void usage(subject& s) {
    std::vector<block> live;
    std::size_t        held = 0;
    for (std::size_t const n : {1u, 0u, 4097u, 7u, 7u, 100'001u, 16u}) {
        s.figure("bytes", n);
        live.push_back(s.allocate(n));
        s.expect_usage(held += n, live.size());
    }
    std::byte some[4]{};
    s.succeeds(s.store.write(live[2], 5, some), "write");
    s.succeeds(s.store.read(live[2], 5, some), "read");
    s.expect_usage(held, live.size());
    for (std::size_t i = 0; !live.empty(); ++i) {
        auto const  at = live.begin() + static_cast<std::ptrdiff_t>(i * 3 % live.size());
        block const b  = *at;
        live.erase(at);
        s.figure("bytes", b.bytes);
        s.free(b);
        s.expect_usage(held -= b.bytes, live.size());
    }
}

/// Checks that a store keeps to a capacity that it reports, and works on after it was full.
inline void capacity(subject& s) {
    std::size_t const most = s.store.usage().capacity;
    if (most == 0) throw skipped_check{"usage().capacity is not known"};
    if (most > std::size_t{256} << 20) throw skipped_check{"usage().capacity is above 256 MiB: too much to fill"};
    s.figure("capacity", most);
    s.refused(s.store.allocate(most + 1, 1), errc::store_full, "allocate of more than the capacity");
    s.expect_usage(0, 0);

    std::size_t const  part = most / 16 + 1;
    std::vector<block> live;
    for (;;) {
        auto const r = s.store.allocate(part, 1);
        if (!r) {
            s.refused(r, errc::store_full, "allocate in a store that is full");
            break;
        }
        live.push_back(*r);
        s.expect(s.store.usage().bytes <= most, "usage().bytes is above usage().capacity");
        s.fill(*r, r->id);
    }
    s.expect(!live.empty(), "an empty store is full");
    s.expect_usage(live.size() * part, live.size());
    for (block const b : live) s.expect_filled(b, b.id);
    for (block& b : live) {
        s.free(b);
        b = s.allocate_filled(part, 1);
    }
    s.free(live);
    s.note = std::to_string(live.size() * part) + " of " + std::to_string(most) + " bytes used";
}

}  // namespace tenure::detail::conformance

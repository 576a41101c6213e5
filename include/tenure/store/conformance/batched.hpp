// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <tenure/store/conformance/subject.hpp>

namespace tenure::detail::conformance {

inline block allocate_in(subject& s, std::uint64_t batch, std::size_t n, std::uint64_t seed) {
    auto const b = s.store.try_allocate_in(batch, n, 1);
    s.succeeds(b, "allocate_in");
    s.fill(*b, seed);
    return *b;
}

/// Checks that the end of a batch frees its blocks alone.
inline void batches(subject& s) {
    std::vector<block> first, second;
    block const        outside = s.allocate_filled(100, 1);
    for (std::uint64_t i = 0; i < 100; ++i) {
        first.push_back(allocate_in(s, 1, 100, 10 + i));
        second.push_back(allocate_in(s, 1'000'000'000'007, 50, 1000 + i));
    }
    s.expect_usage(15'100, 201);
    s.succeeds(s.store.try_deallocate_batch(1, first), "deallocate_batch");
    s.expect_usage(5100, 101);
    for (std::uint64_t i = 0; i < 100; ++i) {
        s.figure("block", i);
        expect_not_live(s, first[i]);
        s.expect_filled(second[i], 1000 + i);
    }
    s.expect_filled(outside, 1);
    s.succeeds(s.store.try_deallocate_batch(1'000'000'000'007, second), "deallocate_batch of the other");
    s.free(outside);
}

inline void transfers(subject& s) {
    std::vector<block> many;
    many.reserve(30);
    for (std::uint64_t i = 0; i < 30; ++i) many.push_back(allocate_in(s, 1, 100, i));
    std::span const all(many), stays = all.first(10), goes = all.subspan(10, 10), leaves = all.subspan(20);
    s.succeeds(s.store.try_transfer(goes, 2), "transfer to a batch that opens with it");
    s.succeeds(s.store.try_transfer(leaves, 0), "transfer to none");
    s.succeeds(s.store.try_transfer({}, 2), "transfer of nothing");
    s.succeeds(s.store.try_deallocate_batch(1, stays), "deallocate_batch of what stayed");
    s.expect_usage(2000, 20);
    for (std::uint64_t i = 10; i < 30; ++i) s.expect_filled(many[i], i);
    s.succeeds(s.store.try_deallocate_batch(2, goes), "deallocate_batch of what came");
    s.expect_usage(1000, 10);
    s.free(leaves);
}

/// Checks that a transfer with a dead block moves none, as the end of the target batch shows.
inline void transfers_whole(subject& s) {
    block const a = allocate_in(s, 1, 100, 1), dead = allocate_in(s, 1, 100, 2), b = allocate_in(s, 1, 100, 3);
    s.free(dead);
    s.refused(s.store.try_transfer(std::vector{a, dead, b}, 2), errc::no_such_block, "transfer with a dead block");
    s.succeeds(s.store.try_deallocate_batch(2, {}), "deallocate_batch of one with nothing in it");
    s.expect_filled(a, 1);
    s.expect_filled(b, 3);
    s.succeeds(s.store.try_deallocate_batch(1, std::vector{a, b}), "deallocate_batch of where they were");
}

/// Checks that a batch may be ended again, as after a fault.
inline void ends_again(subject& s) {
    block const b = allocate_in(s, 1, 100, 1), other = allocate_in(s, 2, 100, 2);
    s.succeeds(s.store.try_deallocate_batch(1, std::span(&b, 1)), "deallocate_batch");
    auto const again = s.store.try_deallocate_batch(1, std::span(&b, 1));
    if (!again) s.refused(again, errc::no_such_block, "deallocate_batch again");
    s.succeeds(s.store.try_deallocate_batch(3, {}), "deallocate_batch of one that never was");
    s.expect_usage(100, 1);
    s.expect_filled(other, 2);
    s.succeeds(s.store.try_deallocate_batch(2, std::span(&other, 1)), "deallocate_batch of the other");
}

}  // namespace tenure::detail::conformance

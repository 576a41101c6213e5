// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <tenure/store/conformance/subject.hpp>

namespace tenure::detail::conformance {

/// Checks that a freed block leaves the usage, and is dead even when another takes its place.
inline void freed(subject& s) {
    block const bystander = s.allocate_filled(1000, 1);
    for (std::size_t const n : {0u, 1u, 100u, 4096u, 70'000u}) {
        s.figure("bytes", n);
        block const b = s.allocate_filled(n, 2);
        s.expect_usage(1000 + n, 2);
        s.free(b);
        s.expect_usage(1000, 1);
        expect_not_live(s, b);
        block const next = s.allocate_filled(n, 3);
        expect_not_live(s, b);
        s.expect_filled(next, 3);
        s.free(next);
    }
    s.expect_filled(bystander, 1);
    s.free(bystander);
}

inline void double_free(subject& s) {
    block const bystander = s.allocate_filled(500, 1);
    block const b         = s.allocate_filled(500, 2);
    s.free(b);
    s.expect_usage(500, 1);
    s.refused(s.store.deallocate(std::array{b}), errc::no_such_block, "the second deallocate of a block");
    s.expect_usage(500, 1);
    block const next = s.allocate_filled(500, 3);  // may be in the same place
    s.refused(s.store.deallocate(std::array{b}), errc::no_such_block, "a later deallocate of a block");
    s.expect_usage(1000, 2);
    s.expect_filled(next, 3);
    s.expect_filled(bystander, 1);
    s.free(std::array{next, bystander});
}

/// Checks that another store's blocks are refused. They have another size, since both stores may use one id.
inline void foreign_blocks(subject& s) {
    any_store          other = s.another();
    std::vector<block> own, foreign;
    for (std::size_t i = 0; i < 20; ++i) own.push_back(s.allocate_filled(10, i));
    for (std::size_t i = 0; i < 20; ++i) {
        auto const r = other.allocate(24, 1);
        s.succeeds(r, "allocate in another store");
        foreign.push_back(*r);
    }
    for (block const b : foreign) expect_not_live(s, b);
    s.refused(s.store.deallocate(foreign), errc::no_such_block, "deallocate of another store's blocks");
    s.expect_usage(200, 20);
    for (std::size_t i = 0; i < own.size(); ++i) s.expect_filled(own[i], i);
    s.free(own);
    s.succeeds(other.deallocate(foreign), "deallocate in the other store");
}

inline void made_up_blocks(subject& s) {
    block const b = s.allocate_filled(10, 1);
    dice        d(2);
    for (std::uint64_t const id : {std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max(),
                                   std::uint64_t{1} << 63, b.id ^ 1, b.id + 1000, b.id ^ std::uint64_t{1} << 32,
                                   b.id ^ std::uint64_t{1} << 63, d(), d(), d(), d() >> 32, d() >> 40}) {
        if (id == b.id) continue;
        s.figure("id", id);
        expect_not_live(s, {id, 10});
        expect_not_live(s, {id, 0});
    }
    s.expect_filled(b, 1);
    s.free(b);
}

/// Checks that an id with other `bytes` than allocate() returned names no block.
inline void wrong_bytes(subject& s) {
    for (std::size_t const n : {0u, 1u, 100u, 4096u}) {
        block const b = s.allocate_filled(n, n);
        for (std::size_t const wrong : {n + 1, n + 4096, n / 2, n - 1, std::size_t{0}}) {
            if (wrong == n) continue;
            s.figure("bytes", n);
            s.figure("named with", wrong);
            expect_not_live(s, {b.id, wrong});
        }
        s.expect_filled(b, n);
        s.free(b);
    }
}

inline void free_nothing(subject& s) {
    s.succeeds(s.store.deallocate({}), "deallocate of no blocks, in an empty store");
    block const b = s.allocate_filled(10, 1);
    s.succeeds(s.store.deallocate({}), "deallocate of no blocks");
    s.expect_usage(10, 1);
    s.free(b);
}

/// Frees everything in one call, as at the end of a large batch.
inline void free_many(subject& s) {
    std::size_t const  goal = std::max<std::size_t>(s.options.free_count, 1);
    std::size_t const  n    = std::min(s.room() / 2 / goal, std::size_t{16});
    std::vector<block> live;
    live.reserve(goal);
    while (live.size() < goal) {
        auto const r = s.store.allocate(n, 1);
        if (!r && live.size() >= 100 && r.error() == errc::store_full) break;  // the store may limit blocks too
        s.succeeds(r, "allocate of block " + std::to_string(live.size() + 1));
        live.push_back(*r);
    }
    s.expect_usage(n * live.size(), live.size());
    std::ranges::shuffle(live, dice(3));
    s.free(live);
    s.expect_usage(0, 0);
    for (std::size_t i = 0; i < live.size(); i += live.size() / 50 + 1) expect_not_live(s, live[i]);
    s.note = std::to_string(live.size()) + " blocks in one call";
}

/// Blocks that are freed in one call.
struct batch {
    std::vector<block> blocks;
    std::size_t        held = 0;

    explicit batch(subject& s) {
        for (std::size_t n = 0; n < 50; ++n) {
            blocks.push_back(s.allocate_filled(n, n));
            held += n;
        }
    }
    void expect_all_gone(subject& s) const {
        s.expect_usage(0, 0);
        for (block const b : blocks) expect_not_live(s, b);
    }
};

/// Checks that dead blocks amid others are reported, and all others freed.
inline void free_with_dead(subject& s) {
    for (std::size_t const where : {0u, 25u, 49u}) {
        batch x(s);
        s.figure("dead block at", where);
        s.free(x.blocks[where]);
        s.refused(s.store.deallocate(x.blocks), errc::no_such_block, "deallocate of many blocks, one not live");
        x.expect_all_gone(s);
    }
    batch              x(s);
    std::vector<block> many = x.blocks;
    many.insert(many.begin() + 25, block{0, 10});
    many.insert(many.begin() + 5, block{many[20].id, 7'777});
    s.refused(s.store.deallocate(many), errc::no_such_block, "deallocate of many blocks, two made up");
    x.expect_all_gone(s);
}

inline void free_twice_in_a_call(subject& s) {
    batch              x(s);
    std::vector<block> many = x.blocks;
    many.insert(many.begin() + 30, many[10]);
    many.push_back(many[49]);
    s.refused(s.store.deallocate(many), errc::no_such_block, "deallocate that names a block twice");
    x.expect_all_gone(s);
}

/// Checks that a caller may repeat the call after a fault.
inline void free_again(subject& s) {
    block const bystander = s.allocate_filled(1000, 1);
    batch       x(s);
    s.free(x.blocks);
    s.expect_usage(1000, 1);
    for (int i = 0; i < 3; ++i) {
        s.refused(s.store.deallocate(x.blocks), errc::no_such_block, "deallocate of the same blocks again");
        s.expect_usage(1000, 1);
    }
    s.expect_filled(bystander, 1);
    s.free(bystander);
    x.expect_all_gone(s);
}

}  // namespace tenure::detail::conformance

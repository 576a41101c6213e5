// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include <tenure/store/conformance/subject.hpp>

namespace tenure::detail::conformance {

inline block keep_filled(subject& s, std::size_t n, std::uint64_t seed, std::string_view name,
                         caller at = caller::current()) {
    block const b = s.allocate_filled(n, seed, at);
    s.succeeds(s.store.try_keep(b, name), "keep", at);
    return b;
}

inline block find(subject& s, std::string_view name, caller at = caller::current()) {
    auto const r = s.store.try_find(name);
    s.succeeds(r, "find of a name that was kept", at);
    return *r;
}

inline void expect_absent(subject& s, std::string_view name, caller at = caller::current()) {
    s.refused(s.store.try_find(name), errc::no_such_block, "find of a name that nothing has", at);
}

inline void keeps(subject& s) {
    expect_absent(s, "a");
    block const a = keep_filled(s, 100, 1, "a"), b = keep_filled(s, 0, 2, "directory/b with a space");
    s.expect_usage(100, 2);
    s.expect(find(s, "a") == a, "find gave another block than was kept");
    s.expect(find(s, "directory/b with a space") == b, "find gave another block than was kept");
    expect_absent(s, "");
    expect_absent(s, "A");
    expect_absent(s, "aa");
    s.expect_filled(a, 1);
    s.fill(a, 3);  // a kept block may be written
    s.expect_filled(find(s, "a"), 3);
    s.free(std::array{a, b});
}

inline void keep_replaces(subject& s) {
    block const first = keep_filled(s, 100, 1, "name"), second = keep_filled(s, 200, 2, "name");
    s.expect(find(s, "name") == second, "find gave another block than was kept last");
    s.expect_filled(second, 2);
    // The first block may live on without a name, as the store chooses. It is gone after this.
    if (auto const r = s.store.deallocate(std::array{first}); !r)
        s.refused(r, errc::no_such_block, "deallocate of a block whose name was taken");
    s.expect_usage(200, 1);
    s.expect(find(s, "name") == second, "the name went with the block that had it before");
    s.free(second);
}

inline void free_kept(subject& s) {
    block const a = keep_filled(s, 100, 1, "a"), b = keep_filled(s, 100, 2, "b");
    s.free(a);
    expect_absent(s, "a");
    expect_not_live(s, a);
    s.expect(find(s, "b") == b, "find gave another block than was kept");
    block const next = keep_filled(s, 100, 3, "a");
    s.expect(find(s, "a") == next, "find gave another block than was kept");
    s.free(std::array{next, b});
}

inline void syncs(subject& s) {
    block const a = keep_filled(s, 100, 1, "a"), b = keep_filled(s, 10'000, 2, "b");
    s.succeeds(s.store.try_sync({}), "sync of no blocks");
    s.succeeds(s.store.try_sync(std::array{a, b}), "sync");
    s.succeeds(s.store.try_sync(std::array{a, b}), "sync of what did not change");
    s.expect_filled(a, 1);
    s.expect_filled(b, 2);
    s.free(b);
    s.refused(s.store.try_sync(std::array{a, b}), errc::no_such_block, "sync of two blocks, one not live");
    s.free(a);
}

inline void closes(subject& s) {
    s.leaves_blocks = true;
    block const a = keep_filled(s, 100, 1, "a"), b = s.allocate_filled(100, 2);
    s.succeeds(s.store.try_close(), "close");
    std::byte  one[1]{};
    auto const closed = [&](auto const& r, std::string_view what, caller at = caller::current()) {
        s.refused(r, errc::store_closed, what, at);
    };
    closed(s.store.allocate(1, 1), "allocate after close");
    closed(s.store.read(a, 0, one), "read after close");
    closed(s.store.write(a, 0, one), "write after close");
    closed(s.store.deallocate(std::array{b}), "deallocate after close");
    closed(s.store.try_keep(b, "b"), "keep after close");
    closed(s.store.try_find("a"), "find after close");
    closed(s.store.try_sync(std::array{a}), "sync after close");
    if (s.can().addressable) closed(s.store.try_address(a), "address after close");
    if (s.can().copyable) closed(s.store.try_copy(a, 0, b, 0, 1), "copy after close");
    closed(s.store.try_close(), "the second close");
}

/// Blocks of a store, and what a reopen must find: kept ones with their last contents and names, and nothing else.
class kept_blocks {
public:
    explicit kept_blocks(subject& s) {
        unkept_.push_back(s.allocate_filled(311, 1));
        for (std::size_t i = 0; i < sizes_.size(); ++i) synced_.push_back(keep_filled(s, sizes_[i], i, name(i)));
        unkept_.push_back(s.allocate_filled(70'001, 2));
        s.fill(synced_[2], 2000);  // after it was kept
        unkept_.push_back(keep_filled(s, 50, 3, "freed"));
        s.free(unkept_.back());
        unkept_.push_back(keep_filled(s, 51, 4, "replaced"));
        synced_.push_back(keep_filled(s, 52, 5, "replaced"));
    }

    std::vector<block> const& kept() const noexcept { return synced_; }

    void expect_there(subject& s) const {
        for (std::size_t i = 0; i < sizes_.size(); ++i) {
            s.figure("kept block", i);
            block const b = find(s, name(i));
            s.expect_equal(b.bytes, sizes_[i], "block.bytes");
            s.expect_filled(b, i == 2 ? 2000 : i);
        }
        block const b = find(s, "replaced");
        s.expect_equal(b.bytes, 52, "bytes of the block that replaced another");
        s.expect_filled(b, 5);
    }

    void expect_nothing_else(subject& s) const {
        s.expect_usage(std::accumulate(sizes_.begin(), sizes_.end(), std::size_t{52}), sizes_.size() + 1);
        expect_absent(s, "freed");
        expect_absent(s, "never kept");
        for (block const b : unkept_) {
            s.figure("bytes", b.bytes);
            expect_not_live(s, b);
        }
    }

private:
    static std::string name(std::size_t i) { return "kept/" + std::to_string(i); }

    static constexpr std::array<std::size_t, 5> sizes_{0, 1, 4096, 5000, 200'000};
    std::vector<block>                          synced_, unkept_;
};

/// Checks a store that is closed and opened again, twice.
inline void reopened(subject& s) {
    s.leaves_blocks = true;
    kept_blocks const x(s);
    s.succeeds(s.store.try_sync(x.kept()), "sync");
    s.succeeds(s.store.try_close(), "close");
    s.reopen();
    x.expect_there(s);
    s.free(keep_filled(s, 77, 9, "late"));  // a reopened store is like any other
    s.succeeds(s.store.try_close(), "close of a store that was opened again");
    s.reopen();
    x.expect_there(s);
    expect_absent(s, "late");
}

/// Checks that blocks are gone that were not kept, were freed or lost their name.
inline void reopened_without_the_rest(subject& s) {
    s.leaves_blocks = true;
    kept_blocks const x(s);
    s.succeeds(s.store.try_close(), "close");
    s.reopen();
    x.expect_nothing_else(s);
}

/// Checks that the destructor does what close() does.
inline void reopened_unclosed(subject& s) {
    s.leaves_blocks = true;
    kept_blocks const x(s);
    s.reopen();
    x.expect_there(s);
    x.expect_nothing_else(s);
}

}  // namespace tenure::detail::conformance

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <tenure/store/any_store.hpp>
#include <tenure/store/conformance/report.hpp>

/// The inside of check_store(). A check is a function of a subject: a fresh store, and the means to say what is
/// expected of it. Checks see an any_store, so they are compiled once and not for each store.
namespace tenure::detail::conformance {

struct failed_check {
    std::string reason;
};
struct skipped_check {
    std::string reason;
};

inline constexpr std::size_t top = std::numeric_limits<std::size_t>::max();

using dice   = std::mt19937_64;
using bytes  = std::vector<std::byte>;
using caller = std::source_location;

inline std::size_t below(dice& d, std::size_t n) { return static_cast<std::size_t>(d() % n); }

/// Returns `n` bytes that differ from seed to seed and from place to place.
inline bytes pattern(std::uint64_t seed, std::size_t n) {
    bytes b(n);
    for (std::size_t i = 0; i < n; i += sizeof seed) {
        std::uint64_t word = (seed + i) * 0x9e37'79b9'7f4a'7c15u;  // splitmix64, of Steele, Lea and Flood (2014)
        word               = (word ^ word >> 30) * 0xbf58'476d'1ce4'e5b9u;
        word ^= word >> 27;
        std::memcpy(b.data() + i, &word, std::min(sizeof word, n - i));
    }
    return b;
}

class subject {
public:
    using maker    = std::function<any_store()>;
    using reopener = std::function<any_store(any_store)>;

    any_store                  store;
    conformance_options const& options;
    std::string                note;                   ///< reported if the check passes
    bool                       leaves_blocks = false;  ///< else a check frees what it made, as run() verifies

    subject(maker const& make, reopener const& reopen, conformance_options const& o)
        : store(make()), options(o), make_(&make), reopen_(&reopen), base_(store.usage()) {}

    store_traits const& can() const noexcept { return store.capabilities(); }

    // --- expectations ------------------------------------------------------------------------------------------

    /// Makes failures from here on say "NAME = value".
    void figure(std::string_view name, std::uint64_t value) {
        auto const f = std::ranges::find(figures_, name, &std::pair<std::string_view, std::uint64_t>::first);
        if (f != figures_.end()) f->second = value;
        else figures_.emplace_back(name, value);
    }

    void expect(bool holds, std::string_view what, caller at = caller::current()) const {
        if (!holds) fail(std::string(what), at);
    }

    void expect_equal(std::uint64_t is, std::uint64_t should, std::string_view what,
                      caller at = caller::current()) const {
        if (is != should)
            fail(std::string(what) + " is " + std::to_string(is) + ", not " + std::to_string(should), at);
    }

    template <class R>
    void succeeds(R const& r, std::string_view what, caller at = caller::current()) const {
        if (!r.has_value()) fail(std::string(what) + ": " + brief(r.error()), at);
    }

    template <class R>
    void refused(R const& r, errc with, std::string_view what, caller at = caller::current()) const {
        if (r.has_value() || r.error() != with)
            fail(std::string(what) + ": " + brief(r.error()) + ", not \"" + brief(with) + '"', at);
    }

    /// Expects these live blocks beyond those of a fresh store.
    void expect_usage(std::size_t in_bytes, std::size_t in_blocks, caller at = caller::current()) const {
        store_usage const now = store.usage();
        expect_equal(now.bytes, base_.bytes + in_bytes, "usage().bytes", at);
        expect_equal(now.blocks, base_.blocks + in_blocks, "usage().blocks", at);
    }

    // --- calls that must succeed -------------------------------------------------------------------------------

    block allocate(std::size_t n, std::size_t alignment = 1, caller at = caller::current()) {
        store_usage const now = store.usage();
        if (now.capacity != 0 && (n > now.capacity || now.bytes > now.capacity - n))
            throw skipped_check{"needs room for more than usage().capacity = " + std::to_string(now.capacity) +
                                " bytes"};
        auto const r = store.allocate(n, alignment);
        if (!r) fail("allocate of " + std::to_string(n) + " bytes: " + brief(r.error()), at);
        expect(r->id != 0, "allocate gave id 0, which names no block", at);
        expect_equal(r->bytes, n, "block.bytes", at);
        return *r;
    }

    void fill(block b, std::uint64_t seed, caller at = caller::current()) {
        succeeds(store.write(b, 0, pattern(seed, b.bytes)), "write of a whole block", at);
    }

    block allocate_filled(std::size_t n, std::uint64_t seed, caller at = caller::current()) {
        block const b = allocate(n, 1, at);
        fill(b, seed, at);
        return b;
    }

    bytes contents(block b, caller at = caller::current()) {
        bytes out(b.bytes);
        succeeds(store.read(b, 0, out), "read of a whole block", at);
        return out;
    }

    void expect_filled(block b, std::uint64_t seed, caller at = caller::current()) {
        expect_contents(contents(b, at), pattern(seed, b.bytes), at);
    }

    void expect_contents(std::span<std::byte const> is, std::span<std::byte const> should,
                         caller at = caller::current()) const {
        auto const where = std::ranges::mismatch(is, should);
        if (where.in1 != is.end())
            fail("wrong contents of a block of " + std::to_string(is.size()) + " bytes from byte " +
                     std::to_string(where.in1 - is.begin()) + " on",
                 at);
    }

    void free(std::span<block const> many, caller at = caller::current()) {
        succeeds(store.deallocate(many), "deallocate of " + std::to_string(many.size()) + " live blocks", at);
    }
    void free(block b, caller at = caller::current()) { free(std::span(&b, 1), at); }

    // --- other stores ------------------------------------------------------------------------------------------

    any_store another() const { return (*make_)(); }

    /// Opens the store's medium anew, and gives up `store` for it.
    void reopen() {
        if (!*reopen_) throw skipped_check{"check_store was given no way to open a store again"};
        store = (*reopen_)(std::exchange(store, {}));
        base_ = {};
    }

    // --- room in the store -------------------------------------------------------------------------------------

    /// Returns the capacity in bytes, or the largest number if it is unknown.
    std::size_t room() const noexcept {
        std::size_t const most = store.usage().capacity;
        return most == 0 ? top : most;
    }

    static std::string brief(std::error_code ec) {
        if (!ec) return "success";
        std::string const text = ec.message();
        return text.substr(0, text.find_first_of(":;"));  // tenure's messages go on with advice
    }

    [[noreturn]] void fail(std::string reason, caller at = caller::current()) const {
        for (auto const& [name, value] : figures_)
            reason.append("; ").append(name).append(" = ").append(std::to_string(value));
        std::string_view const file = at.file_name();
        reason.append(" (").append(file.substr(file.rfind('/') + 1)).append(":");
        throw failed_check{reason.append(std::to_string(at.line())).append(")")};
    }

private:
    maker const*                                            make_;
    reopener const*                                         reopen_;
    store_usage                                             base_;
    std::vector<std::pair<std::string_view, std::uint64_t>> figures_;
};

/// Expects that each operation refuses a block that is not live, without effect.
inline void expect_not_live(subject& s, block dead, caller at = caller::current()) {
    store_usage const before  = s.store.usage();
    auto const        refuses = [&](auto const& r, std::string_view call) {
        s.refused(r, errc::no_such_block, std::string(call) + " a block that is not live", at);
    };
    std::byte one[1]{};
    refuses(s.store.read(dead, 0, {}), "read of nothing from");
    refuses(s.store.write(dead, 0, {}), "write of nothing to");
    if (dead.bytes != 0) {
        refuses(s.store.read(dead, 0, one), "read of");
        refuses(s.store.write(dead, 0, one), "write to");
    }
    refuses(s.store.deallocate({&dead, 1}), "deallocate of");
    if (s.can().addressable) refuses(s.store.try_address(dead), "address of");
    if (s.can().durable) {
        refuses(s.store.try_keep(dead, "not live"), "keep of");
        s.refused(s.store.try_find("not live"), errc::no_such_block, "find after a keep that was refused", at);
        refuses(s.store.try_sync({&dead, 1}), "sync of");
    }
    if (s.can().copyable) {
        block const live = s.allocate(1);
        refuses(s.store.try_copy(dead, 0, live, 0, 0), "copy from");
        refuses(s.store.try_copy(live, 0, dead, 0, 0), "copy to");
        s.free(live);
    }
    s.expect(s.store.usage() == before, "usage() changed by calls that were refused", at);
}

}  // namespace tenure::detail::conformance

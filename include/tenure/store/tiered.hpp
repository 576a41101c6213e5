// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <tenure/store/adaptor.hpp>
#include <tenure/store/tiered/core.hpp>
#include <tenure/store/tiered/figures.hpp>

namespace tenure {

struct tiered_options {
    static constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();

    /// The most bytes in the fast tier, as requested; the tier's own capacity, if that is known and less.
    std::size_t fast_bytes = no_limit;
};

/// A small fast store in front of a large slow one. A block is in one of them. New blocks go to the fast tier,
/// where the least recently used are demoted to make room. A block that is read or written is promoted. If no room
/// can be made, as for a block larger than the fast tier, it stays in the slow tier and is used there.
///
/// A move that fails leaves the block whole where it was; figures() counts it and has the error. A call fails only
/// if its own block's tier does. Both tiers are shared; other uses of them are not seen here. Blocks are not
/// addressable, because they move.
///
/// Thread-safe. No lock is held while a tier is called. A call that names a block waits while another thread moves
/// that block, except deallocate(), which never waits and leaves the block to the threads that use or move it.
/// Beyond the tier's own cost, a call takes two short locks common to all threads, and makes the moves it needs.
/// Freeing allocates nothing, and is one call to each tier; with more than two threads freeing at once it may be
/// several, if the room to gather blocks is fragmented.
template <backing_store Fast, backing_store Slow>
class tiered_store {
public:
    static constexpr store_traits traits{};

    /// Shares the tiers. Neither may be null.
    tiered_store(std::shared_ptr<Fast> const& fast, std::shared_ptr<Slow> slow,
                 tiered_options options = {}) noexcept
        : core_({fast, std::move(slow)}, std::min(options.fast_bytes, capacity(*fast))) {}

    /// Allocates in the fast tier, or in the slow one if there is no room. Errors: bad_alignment; memory_full; the
    /// slow tier's if the fast tier has no room, else the fast tier's.
    result<block> allocate(std::size_t bytes, std::size_t alignment) {
        if (!std::has_single_bit(alignment)) return make_error_code(errc::bad_alignment);
        return core_.allocate(bytes, alignment);
    }

    /// Frees blocks. One that its tier would not free lives on; the result is the tier's error.
    result<void> deallocate(std::span<block const> many) noexcept { return core_.deallocate(many); }

    result<void> read(block b, std::size_t offset, std::span<std::byte> out) {
        return core_.use(b, offset, out.size(), [&](auto& tier, block at) { return tier.read(at, offset, out); });
    }
    result<void> write(block b, std::size_t offset, std::span<std::byte const> in) {
        return core_.use(b, offset, in.size(), [&](auto& tier, block at) { return tier.write(at, offset, in); });
    }

    /// The capacity is what both tiers can hold, if both say so.
    store_usage usage() const noexcept {
        tiered_figures const f    = core_.figures();
        std::size_t const    fast = core_.fast_limit(), slow = capacity(*this->slow());
        return {f.fast.bytes + f.slow.bytes, f.fast.blocks + f.slow.blocks,
                std::max(fast, slow) == unknown || fast > unknown - slow ? 0 : fast + slow};
    }

    /// Holds a block in its tier while the guard lives. The store must outlive the guard; the block may be
    /// deallocated before. Movable.
    class pin_guard {
    public:
        pin_guard() noexcept = default;

    private:
        friend tiered_store;
        struct unpinned {
            std::uint64_t id = 0;
            void          operator()(tiered_store* s) const noexcept { s->core_.unpin(id); }
        };
        pin_guard(tiered_store& s, std::uint64_t id) noexcept : store_(&s, unpinned{id}) {}

        std::unique_ptr<tiered_store, unpinned> store_;
    };

    /// Promotes the block if there is room. Nothing moves it until all its pins have ended.
    result<pin_guard> pin(block b) {
        if (result<void> const r = core_.pin(b); !r) return r.error();
        return pin_guard(*this, b.id);
    }

    tiered_figures figures() const noexcept { return core_.figures(); }

    std::string describe() const {
        return "tiered " + detail::name_of(*fast()) + " over " + detail::name_of(*slow());
    }
    std::shared_ptr<Fast> const& fast() const noexcept { return core_.tiers().fast; }
    std::shared_ptr<Slow> const& slow() const noexcept { return core_.tiers().slow; }

private:
    static constexpr std::size_t unknown = tiered_options::no_limit;

    template <class Tier>
    static std::size_t capacity(Tier const& t) noexcept {
        std::size_t const n = t.usage().capacity;
        return n ? n : unknown;
    }

    detail::tiered_core<Fast, Slow> core_;
};

static_assert(backing_store<tiered_store<any_store, any_store>>);

}  // namespace tenure

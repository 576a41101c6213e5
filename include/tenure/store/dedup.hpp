// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

// Needs libxxhash (Debian: libxxhash-dev; link with -lxxhash).

#include <bit>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <tenure/detail/base/sizes.hpp>
#include <tenure/store/adaptor.hpp>
#include <tenure/store/dedup/core.hpp>
#include <tenure/store/dedup/figures.hpp>
#include <tenure/store/dedup/hash.hpp>

namespace tenure {

/// Stores equal blocks once. The hash finds candidates, and a comparison byte by byte decides.
///
/// A block is compared when a write reaches its end: by then it has usually been written as a whole, in one call or
/// in several, front to back. It shares what was found, or is found by later ones, until it is written to again;
/// that gives it its own bytes, which are compared when a write next reaches the end. seal() compares it now.
///
/// The upstream is asked for room when a block is first written, and again when one that shares its bytes is. So
/// write() may report store_full, memory_full or bad_alignment, and the block is then as it was. Likewise after any
/// other error of a write to bytes that are shared. Where a comparison fails, bytes are merely stored twice. A
/// block that was never written reads as zeros.
///
/// usage() is of the blocks as the user sees them; figures() and the upstream tell what is stored. Blocks have no
/// address, since what they share must not be written to.
///
/// Thread-safe; no lock is held while the upstream is called. Writing a whole block that is stored already costs
/// its hash and one comparison, and no write; writing the last part of one, reading it twice besides. Freeing
/// allocates nothing, and is one call of the upstream; so it is for more than two threads that free at once, unless
/// the room to gather in lies in pieces.
template <backing_store Upstream, content_hasher Hasher = xxh3_128>
class dedup_store {
public:
    static constexpr store_traits traits{};

    /// `upstream` must not be null.
    explicit dedup_store(std::shared_ptr<Upstream> upstream) noexcept : core_(std::move(upstream)) {}

    /// store_full: the upstream cannot have a block as large as that.
    result<block> allocate(std::size_t bytes, std::size_t alignment) {
        if (!std::has_single_bit(alignment)) return make_error_code(errc::bad_alignment);
        std::size_t const capacity = upstream()->usage().capacity;
        if (bytes > (capacity ? capacity : detail::absurd_bytes / 2)) return make_error_code(errc::store_full);
        return core_.allocate(bytes, alignment);
    }

    /// A block whose bytes the upstream would not free lives on, and the upstream's error is the result.
    result<void> deallocate(std::span<block const> many) noexcept { return core_.deallocate(many); }

    result<void> read(block b, std::size_t offset, std::span<std::byte> out) { return core_.read(b, offset, out); }

    result<void> write(block b, std::size_t offset, std::span<std::byte const> in) {
        return core_.write(b, offset, in);
    }

    /// Compares the block now, whatever was written last. Counts as a write to it.
    result<void> seal(block b) { return core_.seal(b); }

    /// The capacity is not known, as it depends on what is written.
    store_usage usage() const noexcept {
        dedup_figures const f = core_.figures();
        return {f.bytes, f.blocks, 0};
    }

    dedup_figures figures() const noexcept { return core_.figures(); }

    std::string                      describe() const { return "dedup " + detail::name_of(*upstream()); }
    std::shared_ptr<Upstream> const& upstream() const noexcept { return core_.upstream(); }

private:
    detail::dedup_core<Upstream, Hasher> core_;
};

static_assert(backing_store<dedup_store<any_store>>);

}  // namespace tenure

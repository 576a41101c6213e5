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

#include <tenure/store/adaptor.hpp>
#include <tenure/store/adaptor/parts.hpp>
#include <tenure/store/dedup/core.hpp>
#include <tenure/store/dedup/figures.hpp>
#include <tenure/store/dedup/hash.hpp>

namespace tenure {

/// Stores equal blocks once. The hash finds candidates; a comparison byte by byte decides.
///
/// A block is compared when a write reaches its end: by then it has usually been written as a whole, in one call
/// or in several, front to back. It then shares the bytes of an equal block, or later blocks share its bytes,
/// until it is written again. That write gives it bytes of its own, which are compared when a write next reaches
/// the end. seal() compares now.
///
/// A block takes room upstream when it is first written, and again when it shares bytes and is written. So write()
/// may return store_full, memory_full or bad_alignment, and the block is then unchanged, as after any other error
/// of a write to shared bytes. If a comparison fails, equal bytes are merely stored twice. A block that was never
/// written reads as zeros.
///
/// usage() counts blocks as the user sees them; figures() and the upstream tell what is stored. Blocks have no
/// address, because shared bytes must not be written.
///
/// Thread-safe. No lock is held while the upstream is called. Writing a whole block that is stored already costs
/// its hash and one comparison, and no write. Writing the last part of a block also reads it twice. Freeing
/// allocates nothing, and is one upstream call; with more than two threads freeing at once it may be several, if
/// the room to gather blocks is fragmented.
template <backing_store Upstream, content_hasher Hasher = xxh3_128>
class dedup_store {
public:
    static constexpr store_traits traits{};

    /// Makes an adaptor of `upstream`, which must not be null.
    explicit dedup_store(std::shared_ptr<Upstream> upstream) noexcept : core_(std::move(upstream)) {}

    /// Allocates no room upstream yet. Errors: store_full if the upstream cannot have a block that large;
    /// bad_alignment; memory_full.
    result<block> allocate(std::size_t bytes, std::size_t alignment) {
        if (!std::has_single_bit(alignment)) return make_error_code(errc::bad_alignment);
        if (!detail::could_hold(*upstream(), bytes)) return make_error_code(errc::store_full);
        return core_.allocate(bytes, alignment);
    }

    /// Frees blocks. One whose bytes the upstream would not free lives on; the result is the upstream's error.
    result<void> deallocate(std::span<block const> many) noexcept { return core_.deallocate(many); }

    result<void> read(block b, std::size_t offset, std::span<std::byte> out) { return core_.read(b, offset, out); }

    result<void> write(block b, std::size_t offset, std::span<std::byte const> in) {
        return core_.write(b, offset, in);
    }

    /// Compares the block now, whatever was written last. Counts as a write to it.
    result<void> seal(block b) { return core_.seal(b); }

    /// The capacity is unknown: it depends on what is written.
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

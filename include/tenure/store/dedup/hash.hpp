// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <xxhash.h>

namespace tenure {

struct content_hash {
    std::uint64_t low  = 0;
    std::uint64_t high = 0;

    friend bool operator==(content_hash const&, content_hash const&) = default;
};

/// Hashes one content, piece by piece, so that a dedup_store finds equal blocks. The same bytes give the same
/// hash, however they are cut. Different bytes should give different hashes, but need not.
template <class H>
concept content_hasher = std::default_initializable<H> && requires(H h, std::span<std::byte const> piece) {
    { h.update(piece) } noexcept -> std::same_as<bool>;  // false: memory ran out
    { h.digest() } noexcept -> std::same_as<content_hash>;
};

/// Hashes by XXH3-128 of libxxhash: link with -lxxhash.
class xxh3_128 {
public:
    xxh3_128() noexcept : state_(XXH3_createState()) {
        if (state_) XXH3_128bits_reset(state_.get());
    }

    bool update(std::span<std::byte const> piece) noexcept {
        return state_ && XXH3_128bits_update(state_.get(), piece.data(), piece.size()) == XXH_OK;
    }
    content_hash digest() noexcept {
        XXH128_hash_t const h = XXH3_128bits_digest(state_.get());
        return {h.low64, h.high64};
    }

private:
    struct freed {
        void operator()(XXH3_state_t* s) const noexcept { XXH3_freeState(s); }
    };
    std::unique_ptr<XXH3_state_t, freed> state_;
};

static_assert(content_hasher<xxh3_128>);

}  // namespace tenure

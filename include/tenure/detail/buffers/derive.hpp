// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/word.hpp>
#include <tenure/detail/batch/lane.hpp>
#include <tenure/detail/objects/throwing.hpp>
#include <tenure/store/any_store.hpp>

namespace tenure::detail {

struct supply;

/// A block that waits for its contents.
struct derivation_target {
    any_store& store;
    block      into;
    supply&    from;  ///< whose `store` that is
};

/// Fills buffers that are made from others.
class derivation_maker {
public:
    derivation_maker()                                   = default;
    derivation_maker(derivation_maker const&)            = delete;
    derivation_maker& operator=(derivation_maker const&) = delete;
    virtual ~derivation_maker()                          = default;

    /// What it throws passes to all who wait.
    virtual void run(derivation_target const& to) = 0;
};

/// Makes a buffer that names a block during one call.
class lent_buffer {
public:
    TENURE_DECL explicit lent_buffer(derivation_target const& to);
    TENURE_DECL ~lent_buffer();
    lent_buffer(lent_buffer const&)            = delete;
    lent_buffer& operator=(lent_buffer const&) = delete;

    raw_handle raw() const noexcept { return buffer_; }

private:
    batch_record* batch_;
    std::uint64_t id_;
    raw_handle    buffer_{};
};

/// Makes a buffer without a block. Its first access has its bytes made. Throws what make() throws.
TENURE_DECL raw_handle make_derived_buffer(lane& l, std::size_t bytes, std::size_t alignment,
                                           any_store const& named, std::unique_ptr<derivation_maker> maker,
                                           std::span<raw_handle const> inputs);

/// Drops the bytes; with those of its inputs, that have a derivation and nobody else's buffer was made from.
TENURE_DECL failure evict_buffer(raw_handle h, bool with_inputs);

[[noreturn, gnu::cold]] TENURE_DECL void throw_not_written(std::error_code why, any_store const& store);

}  // namespace tenure::detail

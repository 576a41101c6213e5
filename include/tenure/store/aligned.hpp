// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include <tenure/error.hpp>
#include <tenure/raise.hpp>
#include <tenure/store/adaptor.hpp>

namespace tenure {

/// A store whose blocks are aligned to so many bytes at least, whatever was asked for. Blocks, their sizes and
/// capabilities are the upstream's.
///
/// As thread-safe as the upstream. A call costs nothing beyond the upstream's own.
template <backing_store Upstream>
class aligned_store : public store_adaptor<Upstream> {
public:
    using store_adaptor<Upstream>::upstream;

    /// `over` must not be null. Throws tenure::error, bad_alignment, if `alignment` is not a power of two. The
    /// upstream may have a largest one (a page, for most that are not memory): then allocate() returns
    /// bad_alignment.
    aligned_store(std::shared_ptr<Upstream> over, std::size_t alignment)
        : store_adaptor<Upstream>(std::move(over)), alignment_(alignment) {
        if (std::has_single_bit(alignment)) return;
        std::size_t const below = std::max<std::size_t>(std::bit_floor(alignment), 1);
        raise(error(errc::bad_alignment, "aligned_store: " + std::to_string(alignment) +
                                             " is not a power of two, as " + std::to_string(below) + " would be"));
    }

    /// Allocates with that alignment or, if it is larger, with the one asked for. Errors: the upstream's.
    result<block> allocate(std::size_t bytes, std::size_t alignment) {
        if (!std::has_single_bit(alignment)) return make_error_code(errc::bad_alignment);
        return upstream()->allocate(bytes, std::max(alignment, alignment_));
    }

    std::size_t alignment() const noexcept { return alignment_; }

    std::string describe() const {
        return detail::name_of(*upstream()) + " aligned to " + std::to_string(alignment_);
    }

private:
    std::size_t const alignment_;
};

static_assert(backing_store<aligned_store<any_store>>);

}  // namespace tenure

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include <tenure/store/adaptor.hpp>
#include <tenure/store/adaptor/split.hpp>

namespace tenure {

/// A store for small blocks, and another for large ones. If one is full, the other does not help out: see
/// fallback_store. For more sizes, make the second one a segregated_store.
///
/// Addressable, anonymous and copyable if both stores are; never durable. Both are shared; other uses of them are
/// not seen here. The destructor frees what is live.
///
/// Thread-safe. Costs what a fallback_store does.
template <backing_store Small, backing_store Large>
class segregated_store : public detail::split_store<Small, Large> {
public:
    /// Shares the stores. Neither may be null. Blocks of up to `threshold` bytes, as requested, are small.
    segregated_store(std::shared_ptr<Small> small, std::shared_ptr<Large> large, std::size_t threshold) noexcept
        : segregated_store::split_store(std::move(small), std::move(large)), threshold_(threshold) {}

    /// Allocates in the store for blocks of that size. Errors: that store's; memory_full.
    result<block> allocate(std::size_t bytes, std::size_t alignment) {
        return bytes <= threshold_ ? this->allocate_in_first(bytes, alignment)
                                   : this->allocate_in_second(bytes, alignment);
    }

    std::size_t                   threshold() const noexcept { return threshold_; }
    std::shared_ptr<Small> const& small() const noexcept { return this->first_; }
    std::shared_ptr<Large> const& large() const noexcept { return this->second_; }

    std::string describe() const {
        return detail::name_of(*small()) + " up to " + std::to_string(threshold_) + " bytes, then " +
               detail::name_of(*large());
    }

private:
    std::size_t const threshold_;
};

static_assert(backing_store<segregated_store<any_store, any_store>>);

}  // namespace tenure

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include <tenure/store/adaptor.hpp>
#include <tenure/store/adaptor/parts.hpp>
#include <tenure/store/adaptor/split.hpp>

namespace tenure {

/// A store, and another for what the first has no room for. A block stays where it was allocated; a tiered_store
/// moves blocks between its tiers, and so has neither addresses nor copies inside a tier. For a third store, make
/// the second one a fallback_store.
///
/// Addressable, anonymous and copyable if both stores are; never durable. Both are shared; other uses of them are
/// not seen here. The destructor frees what is live.
///
/// Thread-safe. No lock is held while a store is called. Beyond the stores' own cost, a block takes about 100
/// bytes; allocate() takes two short locks common to all threads, or five if the first store has no room,
/// deallocate() two and one for each block; other calls take none. Freeing allocates nothing, and is one call to
/// each store; with more than two threads freeing at once it may be several, if the room to gather blocks is
/// fragmented.
template <backing_store First, backing_store Second>
class fallback_store : public detail::split_store<First, Second> {
public:
    /// Shares the stores. Neither may be null.
    fallback_store(std::shared_ptr<First> first, std::shared_ptr<Second> second) noexcept
        : fallback_store::split_store(std::move(first), std::move(second)) {}

    /// Allocates in the first store. If that has no room (store_full, memory_full, limit_exceeded, or the system's
    /// ENOSPC or ENOMEM), allocates in the second. Errors: the second store's; the first one's if it is another, as
    /// bad_alignment; memory_full.
    result<block> allocate(std::size_t bytes, std::size_t alignment) {
        result<block> const b = this->allocate_in_first(bytes, alignment);
        return b || !detail::is_full(b.error()) ? b : this->allocate_in_second(bytes, alignment);
    }

    std::shared_ptr<First> const&  first() const noexcept { return this->first_; }
    std::shared_ptr<Second> const& second() const noexcept { return this->second_; }

    std::string describe() const { return detail::name_of(*first()) + ", else " + detail::name_of(*second()); }
};

static_assert(backing_store<fallback_store<any_store, any_store>>);

}  // namespace tenure

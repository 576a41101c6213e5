// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>

#include <tenure/batch.hpp>

namespace tenure {

/// An idle batch that can go out, as an eviction policy sees it.
struct eviction_candidate {
    batch_id      id;
    std::size_t   bytes    = 0;  ///< memory that is freed if the batch goes out
    std::uint64_t entered  = 0;  ///< when a thread last entered it, or it was opened; larger is later
    int           priority = 0;  ///< batch_options::priority
};

/// Says which of two batches goes out first: a strict weak order. The thread that needs memory calls it. It must
/// neither throw nor call the registry.
template <class P>
concept eviction_policy = std::copy_constructible<P> && requires(P const& p, eviction_candidate const& c) {
    { p(c, c) } -> std::same_as<bool>;
};

/// The batch that was entered longest ago goes out first.
struct least_recently_entered {
    bool operator()(eviction_candidate const& a, eviction_candidate const& b) const noexcept {
        return a.entered < b.entered;
    }
};

/// The largest batch goes out first, so that few go out.
struct largest_first {
    bool operator()(eviction_candidate const& a, eviction_candidate const& b) const noexcept {
        return a.bytes > b.bytes;
    }
};

/// The lowest priority goes out first; of one priority, the least recently entered.
struct lowest_priority_first {
    bool operator()(eviction_candidate const& a, eviction_candidate const& b) const noexcept {
        return a.priority != b.priority ? a.priority < b.priority : a.entered < b.entered;
    }
};

static_assert(eviction_policy<least_recently_entered> && eviction_policy<largest_first> &&
              eviction_policy<lowest_priority_first>);

/// Holds any eviction policy.
using any_eviction_policy = std::function<bool(eviction_candidate const&, eviction_candidate const&)>;

/// Slab memory in use by a registry, in bytes; what is out is not in use. Above `high`, idle batches go out until
/// the use is `low`, so that not every make comes to this.
struct memory_limits {
    std::size_t high = no_limit;
    std::size_t low  = no_limit;  ///< if more than `high`: 7/8 of `high`
};

/// What happens to a thread that touches memory that is out, without having entered its batch.
enum class paged_access : std::uint8_t {
    brings_back,  ///< the memory comes back, page by page
    faults,       ///< SIGSEGV, to find such places
};

}  // namespace tenure

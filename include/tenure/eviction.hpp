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
    std::size_t   bytes    = 0;  ///< memory that its going out frees
    std::uint64_t entered  = 0;  ///< when a thread entered it last, or it was opened: larger is later
    int           priority = 0;  ///< batch_options::priority
};

/// Which of two batches goes out before the other: a strict weak order. It is called by whichever thread needs
/// memory, and must not call the registry.
template <class P>
concept eviction_policy = std::copy_constructible<P> && requires(P const& p, eviction_candidate const& c) {
    { p(c, c) } -> std::same_as<bool>;
};

struct least_recently_entered {
    bool operator()(eviction_candidate const& a, eviction_candidate const& b) const noexcept {
        return a.entered < b.entered;
    }
};

/// So that few go out.
struct largest_first {
    bool operator()(eviction_candidate const& a, eviction_candidate const& b) const noexcept {
        return a.bytes > b.bytes;
    }
};

/// And of one priority the least recently entered.
struct lowest_priority_first {
    bool operator()(eviction_candidate const& a, eviction_candidate const& b) const noexcept {
        return a.priority != b.priority ? a.priority < b.priority : a.entered < b.entered;
    }
};

static_assert(eviction_policy<least_recently_entered> && eviction_policy<largest_first> &&
              eviction_policy<lowest_priority_first>);

/// Any policy.
using any_eviction_policy = std::function<bool(eviction_candidate const&, eviction_candidate const&)>;

/// Slab memory in use by a registry, in bytes; what is out is not in use. Over `high`, idle batches go out until
/// it is `low`, so that not every make comes to this.
struct memory_limits {
    std::size_t high = no_limit;
    std::size_t low  = no_limit;  ///< more than `high`: 7/8 of it
};

/// What becomes of who touches memory that is out, without having entered its batch.
enum class paged_access : std::uint8_t {
    brings_back,  ///< it comes back, page by page
    faults,       ///< SIGSEGV: for finding such places
};

}  // namespace tenure

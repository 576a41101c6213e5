// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/batch/lane.hpp>
#include <tenure/detail/batch/thread_context.hpp>

namespace tenure::detail {

/// The lane to make current for a visit.
struct visited_lane {
    lane* where;
    bool  entered;
    bool  stays = false;  ///< it is current already

    bool          over        = false;  ///< it stands in for a batch that is over
    std::uint64_t over_before = 0;      ///< the former thread_context::over
};

/// Makes a batch current on this thread while it lives. Afterwards what was current before is so again, whatever
/// was left open or made current in between. For a batch that is over, an over_record stands in, in which make
/// throws batch_ended, expired or cancelled: never a batch that nobody named.
///
/// Costs two locked instructions; more if another thread is inside; none if the batch is current already, or its
/// guard is this thread's.
class visit {
public:
    /// Makes the batch current. Throws std::bad_alloc if other threads are in all its lanes, and no memory is left
    /// for one.
    TENURE_DECL explicit visit(std::uint64_t id);
    TENURE_DECL ~visit();
    visit(visit const&)            = delete;
    visit& operator=(visit const&) = delete;

private:
    explicit visit(visited_lane const& to) noexcept;

    void go_back(thread_context& me) noexcept;
    void put_back() noexcept;

    visited_lane const to_;
    former_current     previous_;
};

}  // namespace tenure::detail

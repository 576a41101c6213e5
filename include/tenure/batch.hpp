// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <array>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <string_view>
#include <system_error>

#include <tenure/store/any_store.hpp>

namespace tenure {

/// Names a batch for ever: no id is given out twice in one process. A value of 0 names none.
struct batch_id {
    std::uint64_t value = 0;

    explicit    operator bool() const noexcept { return value != 0; }
    friend auto operator<=>(batch_id, batch_id) = default;
};

enum class batch_status : std::uint8_t {
    active,     ///< objects can be made in it
    ending,     ///< over; freed as soon as nothing depends on it (a child, a lane, a thread inside, a user)
    retained,   ///< over, with cleanup::manual: keeps what it owns until destroy_batch
    done,       ///< everything it owned is freed
    expired,    ///< its time was up: nothing can be made in it, and its handles say so
    cancelled,  ///< likewise, by cancel()
};

enum class cleanup : std::uint8_t {
    on_exit,  ///< the end frees what the batch owns
    manual,   ///< the end frees nothing; registry::destroy_batch(id) does
};

/// Who runs the destructors of what a batch owns, and frees its memory.
enum class reclamation : std::uint8_t {
    at_once,     ///< who ends it, before the end returns
    background,  ///< a thread of the registry, afterwards: see registry::drain
};

/// What becomes of a batch with checkpoints when an exception leaves its guard's block.
enum class on_exception : std::uint8_t {
    end,       ///< it ends, as at the closing brace
    rollback,  ///< it goes back to its first checkpoint, and ends then: see registry::rollback
};

/// Where a batch's memory is while no thread has the batch entered and its guard is not open.
enum class residency : std::uint8_t {
    memory,           ///< in memory, unless registry::page_out is called
    paged_when_left,  ///< in the page file: it goes out whenever the last thread leaves
    automatic,        ///< in memory as long as the registry's memory_limit allows
};

/// Bytes in use; a moment's figures.
struct batch_usage {
    std::size_t objects  = 0;  ///< live objects that have a handle
    std::size_t bytes    = 0;  ///< in use by them and by what resource() gave out, headers and padding included
    std::size_t retained = 0;  ///< held from the system for this batch, in whole 64 KiB units
    std::size_t peak     = 0;  ///< the most that `bytes` has been

    std::size_t buffers      = 0;  ///< in stores; each is one of `objects`, too
    std::size_t buffer_bytes = 0;  ///< in them, as asked for
    std::size_t paged_out    = 0;  ///< of `retained`, in the page file

    friend bool operator==(batch_usage const&, batch_usage const&) = default;
};

inline constexpr std::size_t no_limit = static_cast<std::size_t>(-1);

/// Bytes in use by a batch and all batches below it, those of buffers included, wherever they are. `make` that
/// would pass `hard` fails with limit_exceeded. A make whose use passes `soft` calls `on_soft` once, on its own
/// thread and with no lock held, before the object exists; again only after use has been below. What it throws
/// leaves `make`.
struct batch_limits {
    std::size_t                                       soft = no_limit;
    std::size_t                                       hard = no_limit;
    std::function<void(batch_id, std::size_t in_use)> on_soft{};
};

inline constexpr std::chrono::nanoseconds no_timeout = std::chrono::nanoseconds::max();

struct batch_options {
    std::string_view name{};  ///< copied; what exceeds 63 bytes is cut
    tenure::cleanup  cleanup = tenure::cleanup::on_exit;

    /// For slow destructors. In the background they run some milliseconds later, on another thread, in the order of
    /// the ends: what they use of other batches must outlive theirs. Every handle into the batch is stale once the
    /// end has returned. What they make is the registry's root's, unless the batch above waits for them, too.
    tenure::reclamation  reclaim      = reclamation::at_once;
    tenure::on_exception on_exception = tenure::on_exception::end;

    /// See registry::page_out. Batches below it have their own.
    tenure::residency residency = tenure::residency::memory;

    /// For eviction policies that look at it: the lower goes out first.
    int priority = 0;

    /// How long it may take, from its opening on; what is left to the batch above it where that is less. Then it
    /// expires: make throws errc::expired, its stop_token fires, batches below it expire, too, its buffers go at
    /// once, but for those that are pinned, mapped or just read or written, and it itself as soon as no thread is
    /// inside; an open guard keeps its objects until it closes. Acted on by a supervisor (asio.hpp) or by
    /// registry::expire_overdue; else noticed at the next make, at the next access to a buffer, when somebody
    /// enters it, pins something for it or opens a batch below it, or at the end: then each of these looks at the
    /// clock, for some 50 ns. Access through a handle never does.
    std::chrono::nanoseconds timeout = no_timeout;

    batch_limits limits{};

    /// For its buffers, and where it is addressable for its objects; else as the batch above it. One that batches
    /// name costs more than the registry's own: a lock a run, no stocks. Shared until the last batch and the last
    /// object in it are gone.
    any_store store{};
};

/// What an end did. made + received = kept + freed, unless objects stay (manual, or still waited for).
struct batch_report {
    std::size_t              made     = 0;  ///< objects made in the batch
    std::size_t              received = 0;  ///< objects kept or transferred into it
    std::size_t              kept     = 0;  ///< objects kept or transferred out of it
    std::size_t              freed    = 0;  ///< objects freed, early or at the end
    std::size_t              bytes    = 0;  ///< freed at the end
    std::size_t              peak     = 0;  ///< the most bytes in use at one time
    std::chrono::nanoseconds duration{};    ///< from open to end, on the coarse clock: a few milliseconds of grain
    batch_status             status = batch_status::done;

    std::size_t     buffers      = 0;  ///< of `freed`, in one call a store
    std::size_t     buffer_bytes = 0;  ///< in them
    std::size_t     store_errors = 0;  ///< stores that could not free all of them: it is tried again, see snapshot
    std::error_code store_error{};     ///< what the last of these said
    std::error_code page_error{};      ///< of registry::end_with_report: why it could not go out last

    std::size_t pins_held = 0;                   ///< guards of its pins that were still alive, and are empty now
    std::array<std::source_location, 4> pins{};  ///< where the newest of them were taken
};

}  // namespace tenure

template <>
struct std::hash<tenure::batch_id> {
    std::size_t operator()(tenure::batch_id id) const noexcept { return std::hash<std::uint64_t>{}(id.value); }
};

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <string>
#include <string_view>
#include <system_error>

#include <tenure/detail/base/clocks.hpp>
#include <tenure/detail/base/printed.hpp>
#include <tenure/reservation.hpp>
#include <tenure/store/any_store.hpp>

namespace tenure {

/// Names a batch for ever: a process gives out no id twice. The value 0 names no batch.
struct batch_id {
    std::uint64_t value = 0;

    explicit    operator bool() const noexcept { return value != 0; }
    friend auto operator<=>(batch_id, batch_id) = default;
};

namespace detail {

inline constexpr unsigned record_bits = 26;  ///< of an id, which number the record; the others count its batches

constexpr std::uint64_t record_number(std::uint64_t id) noexcept {
    return id & ((std::uint64_t{1} << record_bits) - 1);
}

/// Returns an id as messages have it: "#47.3" names the third batch of record 47.
[[gnu::cold]] inline std::string id_text(std::uint64_t id) {
    return printed("#%zu.%zu", static_cast<std::size_t>(record_number(id)),
                   static_cast<std::size_t>(id >> record_bits));
}

}  // namespace detail

enum class batch_status : std::uint8_t {
    active,     ///< objects can be made in it
    ending,     ///< over; freed once nothing depends on it (a batch below, a lane, a thread inside, a user)
    retained,   ///< over, with cleanup::manual: keeps what it owns until registry::destroy_batch
    done,       ///< everything it owned is freed
    expired,    ///< its time was up: nothing can be made in it, and its handles report that
    cancelled,  ///< cancel() was called: nothing can be made in it, and its handles report that
};

enum class cleanup : std::uint8_t {
    on_exit,  ///< the end frees what the batch owns
    manual,   ///< the end frees nothing; registry::destroy_batch does
};

/// Which thread runs the destructors of what a batch owns, and frees its memory.
enum class reclamation : std::uint8_t {
    at_once,     ///< the thread that ends the batch, before the end returns
    background,  ///< a thread of the registry, later: see registry::drain
};

/// What happens to a batch with an open checkpoint when an exception leaves the block of its guard.
enum class on_exception : std::uint8_t {
    end,       ///< the batch ends, as at the closing brace
    rollback,  ///< the batch rolls back to its first checkpoint, and then ends: see registry::rollback
};

/// Whether objects and buffers can be made in a registry's root.
enum class root_makes : std::uint8_t {
    allowed,  ///< they live there until they are freed or the registry ends
    refused,  ///< root_refused: for programs in which everything belongs to a batch
};

/// Where a batch's memory is while no thread is inside and its guard is not open.
enum class residency : std::uint8_t {
    memory,           ///< in memory, unless registry::page_out is called
    paged_when_left,  ///< in the page file: it goes out whenever the last thread leaves
    automatic,        ///< in memory as long as the registry's memory_limit allows
};

/// What a batch uses at one moment.
struct batch_usage {
    std::size_t objects  = 0;  ///< live objects that have a handle
    std::size_t bytes    = 0;  ///< in use by these objects and from resource(), with headers and padding
    std::size_t retained = 0;  ///< held from the system for this batch, in whole 64 KiB units
    std::size_t peak     = 0;  ///< the highest value of `bytes` so far

    std::size_t buffers      = 0;  ///< buffers in stores; `objects` counts them too
    std::size_t buffer_bytes = 0;  ///< in these buffers, as requested
    std::size_t paged_out    = 0;  ///< the part of `retained` that is in the page file

    friend bool operator==(batch_usage const&, batch_usage const&) = default;
};

/// Asks for more than one: usage(id, recursive) with the batches below that, evict(b, recursive) with what `b` was
/// made from.
struct recursive_t {
    explicit recursive_t() = default;
};
inline constexpr recursive_t recursive{};

/// When a batch's end makes a deferred call. The phases of one batch follow one another; in each, calls come newest
/// first. What batches below it own is gone before the first.
enum class release_phase : std::uint8_t {
    before,    ///< before all that the batch owns: everything is still there
    in_order,  ///< among the destructors and deleters of its objects, in reverse order of registration
    after,     ///< after all of these, and before its buffers and its memory go
};

namespace detail {

template <class F, release_phase Phase>
struct deferred;

}  // namespace detail

/// A call that defer() has registered, known by its handle<deferred_call>. That is alive until the call begins or
/// is cancelled. cancel() drops the call, free() makes it now; keep() and transfer_ownership() give it to another
/// batch, whose end makes it, in the same phase.
class deferred_call {
    template <class F, release_phase Phase>
    friend struct detail::deferred;

    deferred_call()  = default;
    ~deferred_call() = default;
};

inline constexpr std::size_t no_limit = static_cast<std::size_t>(-1);

/// Limits on the bytes in use by a batch and all batches below it, including buffers in any store. A make that
/// would pass `hard` fails with limit_exceeded. A make that passes `soft` calls `on_soft` once, on its own thread,
/// with no lock held, before the object exists; and again only after the use has been back at `soft` or below. An
/// exception from `on_soft` leaves make.
struct batch_limits {
    std::size_t                                       soft = no_limit;
    std::size_t                                       hard = no_limit;
    std::function<void(batch_id, std::size_t in_use)> on_soft{};
};

inline constexpr std::chrono::nanoseconds no_timeout = std::chrono::nanoseconds::max();

struct batch_options {
    std::string_view name{};  ///< copied; cut after 63 bytes
    tenure::cleanup  cleanup = tenure::cleanup::on_exit;

    /// Background reclamation is for slow destructors. They run some milliseconds later, on another thread, in the
    /// order of the ends; what they use of other batches must live until then. Every handle into the batch is
    /// stale once the end has returned. What the destructors make belongs to the registry's root, or to the
    /// nearest active batch above if the batch above has limits, a timeout or background reclamation.
    tenure::reclamation  reclaim      = reclamation::at_once;
    tenure::on_exception on_exception = tenure::on_exception::end;

    /// See registry::page_out. Batches below it have their own.
    tenure::residency residency = tenure::residency::memory;

    /// For eviction policies that use it: a batch of lower priority goes out first.
    int priority = 0;

    /// How long the batch may take from its opening on, and never longer than the batch above. Then the batch
    /// expires: make throws errc::expired, its stop_token fires, and batches below it expire too. Its buffers lose
    /// their bytes at once, except those that are pinned, mapped, being read or written, or under a checkpoint.
    /// The batch goes as soon as no thread is inside; an open guard keeps its objects until it closes.
    ///
    /// A supervisor (asio.hpp) or registry::expire_overdue acts at the deadline. Without them, each of these looks
    /// at the clock, for some 50 ns: a make, an access to a buffer, an enter, a pin for the batch, an open below
    /// it, and the end. Access through a handle never does.
    std::chrono::nanoseconds timeout = no_timeout;

    batch_limits limits{};

    /// Room in a memory_budget (budget.hpp), to which the batch and those below it are charged. A make that would
    /// pass it extends it if there is more, or waits; it never passes `limits.hard`.
    tenure::reservation reservation{};

    /// For the batch's buffers and, if it is addressable, for its objects. Empty: the store of the batch above. A
    /// store that batches name costs more than the registry's own: a lock a run, no stocks. It is shared until the
    /// last batch and the last object in it are gone.
    any_store store{};

    /// Meant to live as long as its registry, as a cache does: leak reports say nothing of it.
    bool long_lived = false;
};

/// What an end did. made + received = kept + freed, unless objects stay (cleanup::manual, or something depends on
/// the batch).
struct batch_report {
    std::size_t              made     = 0;  ///< objects made in the batch
    std::size_t              received = 0;  ///< objects kept or transferred into it
    std::size_t              kept     = 0;  ///< objects kept or transferred out of it
    std::size_t              freed    = 0;  ///< objects freed, early or at the end
    std::size_t              bytes    = 0;  ///< freed at the end
    std::size_t              peak     = 0;  ///< the highest number of bytes in use
    std::chrono::nanoseconds duration{};    ///< from opening to end, by a coarse clock: exact to a few milliseconds
    batch_status             status = batch_status::done;

    std::size_t     buffers      = 0;  ///< freed at the end, by one call of each store; `freed` counts them too
    std::size_t     buffer_bytes = 0;  ///< in these buffers
    std::size_t     store_errors = 0;  ///< stores that could not free all yet: see snapshot. Not for ends by id
    std::error_code store_error{};     ///< what the last of these stores reported
    std::error_code page_error{};      ///< why the batch could not be paged out last. Only for ends by id

    std::size_t pins_held = 0;                   ///< guards of the batch's pins that were alive, and are empty now
    std::array<std::source_location, 4> pins{};  ///< where the newest of them were taken
};

namespace detail {

/// Returns the function at a place as its author wrote it. In a coroutine, g++ names its own function for the body,
/// "void f(f(int)::_Z1fi.Frame*)": of that, f(int).
constexpr std::string_view function_at(std::source_location const& where) noexcept {
    std::string_view const name = where.function_name();
    if (!name.ends_with(".Frame*)")) return name;
    std::size_t const end   = name.rfind("::_Z");
    std::size_t       begin = name.size() - 1;
    for (int open = 1; begin > 0 && open > 0;) {
        char const c = name[--begin];
        open += (c == ')') - (c == '(');
    }
    return end == name.npos || end < begin ? name : name.substr(begin + 1, end - begin - 1);
}

inline char const* to_string(batch_status s) noexcept {
    switch (s) {
    case batch_status::active: return "active";
    case batch_status::ending: return "ending";
    case batch_status::retained: return "retained";
    case batch_status::done: return "done";
    case batch_status::expired: return "expired";
    case batch_status::cancelled: return "cancelled";
    }
    return "";
}

}  // namespace detail

}  // namespace tenure

template <>
struct std::hash<tenure::batch_id> {
    std::size_t operator()(tenure::batch_id id) const noexcept { return std::hash<std::uint64_t>{}(id.value); }
};

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <memory_resource>
#include <new>
#include <source_location>
#include <span>
#include <system_error>
#include <type_traits>

#include <tenure/batch.hpp>
#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/gated_spin_lock.hpp>
#include <tenure/detail/batch/finalizer.hpp>
#include <tenure/detail/batch/lane.hpp>
#include <tenure/detail/batch/progress.hpp>
#include <tenure/detail/batch/timing_front.hpp>
#include <tenure/detail/batch/use_node.hpp>
#include <tenure/detail/unit/region.hpp>
#include <tenure/error.hpp>

namespace tenure::detail {

class membership_list;
struct registry_core;
struct paged_batch;
struct stored;
struct supply;
struct thread_context;
struct checkpoint_front;

/// How a batch's end differs from the usual one: flags of batch_record::ends.
namespace end_flags {
inline constexpr std::uint8_t manual     = 1;  ///< it frees nothing
inline constexpr std::uint8_t background = 2;  ///< the registry's thread runs its destructors
inline constexpr std::uint8_t long_lived = 4;  ///< who leaves it to the registry has forgotten nothing
}  // namespace end_flags

/// What few batches have, so that the usual one ends, and its record begins anew, without looking for it: flags of
/// batch_record::unusual. Written by the thread that has the guard, or by the one that ends the batch.
namespace unusual_flags {
inline constexpr std::uint8_t own       = 1;  ///< something that reset_unusual() resets
inline constexpr std::uint8_t inherited = 2;  ///< limits or a named store, which batches below have, too
}  // namespace unusual_flags

/// Objects and bytes that went one way. The batch's own thread adds without a locked instruction.
class tally {
public:
    [[gnu::always_inline]] void add(std::uint64_t n, std::uint64_t b, bool own) noexcept {
        constexpr auto relaxed = std::memory_order_relaxed;
        if (own) {
            own_objects_.store(own_objects_.load(relaxed) + n, relaxed);
            own_bytes_.store(own_bytes_.load(relaxed) + b, relaxed);
        } else {
            other_objects_.fetch_add(n, relaxed);
            other_bytes_.fetch_add(b, relaxed);
        }
    }
    std::uint64_t objects() const noexcept {
        return own_objects_.load(std::memory_order_relaxed) + other_objects_.load(std::memory_order_relaxed);
    }
    std::uint64_t bytes() const noexcept {
        return own_bytes_.load(std::memory_order_relaxed) + other_bytes_.load(std::memory_order_relaxed);
    }
    void reset() noexcept {
        for (auto* a : {&own_objects_, &own_bytes_, &other_objects_, &other_bytes_})
            a->store(0, std::memory_order_relaxed);
    }

private:
    std::atomic<std::uint64_t> own_objects_{0}, own_bytes_{0};
    std::atomic<std::uint64_t> other_objects_{0}, other_bytes_{0};
};

/// What came and went besides what the batch's own lane made.
struct ledger {
    tally                      given;     ///< kept or transferred out
    tally                      received;  ///< kept or transferred in
    tally                      freed;     ///< before the end
    tally                      large_made;
    std::atomic<std::uint64_t> large_units{0};
    std::atomic<std::uint64_t> shared_units{0};  ///< that no other batch counts
    std::atomic<std::uint64_t> peak{0};          ///< of bytes in use, at the last look
    std::atomic<std::uint64_t> noted{0};         ///< the cursor at that look; 0: look again before anything leaves

    /// Nothing came or went, but the large pieces are still there.
    void forget() noexcept {
        for (tally* t : {&given, &received, &freed, &large_made}) t->reset();
        peak.store(0, std::memory_order_relaxed);
        noted.store(0, std::memory_order_relaxed);
    }
    void reset() noexcept {
        forget();
        large_units.store(0, std::memory_order_relaxed);
    }
};

/// A unit of a batch's own memory from which it kept something. It is that unit as long as its word is this one:
/// nobody but the batch gives it up, and then its generation changes.
struct kept_unit {
    std::uintptr_t base;
    word_t         word;
    unit*          u;
    unit_rest*     rest;
    tracking*      track;
};

/// Handles of what keep() gave away from a batch through one lane, for discard(). The lane's thread alone adds
/// some; discard() reads them on any thread.
struct kept_log {
    kept_log*                next;
    std::size_t              room;
    std::atomic<std::size_t> count{0};
    kept_unit                last{};  ///< of the unit from which the lane kept last, while this is its newest log

    /// `room` of them, right behind this: their lifetime began with the memory.
    raw_handle* items() noexcept { return std::launder(reinterpret_cast<raw_handle*>(this + 1)); }

    std::size_t size() const noexcept { return count.load(std::memory_order_relaxed); }
    bool        is_full() const noexcept { return size() == room; }
    void        resize(std::size_t n) noexcept { count.store(n, std::memory_order_release); }
    void        add(raw_handle h) noexcept {
        std::size_t const n = size();
        items()[n]          = h;
        resize(n + 1);
    }
    std::span<raw_handle const> handles() noexcept { return {items(), count.load(std::memory_order_acquire)}; }
};

inline constexpr std::size_t name_words = 8;

/// What batch_limits says, while it may be changed, and what is lent to the batch.
struct limits_now {
    using told = std::function<void(batch_id, std::size_t)>;

    std::atomic<std::size_t>    soft{no_limit}, hard{no_limit};
    std::atomic<std::size_t>    lent{no_limit};
    std::atomic<std::uint64_t>  peak{0};  ///< of what was charged
    std::shared_ptr<told const> on_soft;  ///< guarded by the batch's lock
    std::shared_ptr<lender>     from;     ///< of `lent`, or null; guarded by the batch's lock
};

inline constexpr int no_unwinding = std::numeric_limits<int>::max();

/// An error_code of tenure or of the system, in one word.
class packed_error {
public:
    constexpr packed_error() noexcept = default;
    packed_error(std::error_code e) noexcept  // NOLINT(google-explicit-constructor): it is the same
        : value_(e.category() == error_category() ? -e.value() : e.value()) {}

    explicit        operator bool() const noexcept { return value_ != 0; }
    std::error_code code() const noexcept {
        return value_ < 0 ? make_error_code(static_cast<errc>(-value_))
                          : std::error_code(value_, std::system_category());
    }

private:
    int value_ = 0;
};

/// Where a guard is. The thread that opened it and one that destroys it leave `with_opener` by
/// compare-and-exchange; whoever comes second does the rest, and restores it for the record's next batch.
enum class guard_place : std::uint8_t {
    with_opener,  ///< in its chain, or there is none
    closed,       ///< another thread has destroyed it: the opener ends the batch when it comes by, or when it ends
    ended,        ///< the opener has ended the batch, and the guard is still to be destroyed
    left,         ///< the opener's thread has ended
};

/// Whether a batch's memory is in the page file. In the last three states a thread has claimed the batch's paging,
/// and a thread that enters waits. With `moving` it has begun to change the memory; before that a forked child,
/// which does not have the thread, knows where the memory is.
enum class paging_state : int { in, out, claimed_in, claimed_out, moving };

/// The rest of what is known of a batch: of one with a name, limits or a timeout, one that keeps, shares, frees
/// early or is used by others, one that is paged. Opening and ending a plain batch do not touch it.
struct batch_rest {
    ledger                     books;
    std::atomic<std::uint64_t> name[name_words]{};
    std::atomic<std::uint32_t> renames{0};  ///< odd while a thread that has the batch's lock writes the name

    // Of a batch that is `limited` by itself, which a timeout makes it, too.
    limits_now                 limits;
    std::atomic<std::uint64_t> charged{0};  ///< in use here and below
    std::atomic<bool>          above_soft{false};
    deadline_node              timer;

    use_node uses;

    // Of a batch that is `used`; guarded by its lock.
    entry* before = nullptr;  ///< deferred calls of release_phase::before, newest first
    entry* after  = nullptr;

    std::uint32_t guards_beside =
        0;  ///< opened on the batch's thread directly below it, when it was not the newest

    // Guarded by the lock of the parent: children.hpp.
    batch_record* oldest_child  = nullptr;
    batch_record* newest_child  = nullptr;
    batch_record* older_sibling = nullptr;
    batch_record* newer_sibling = nullptr;

    std::atomic<int>           priority{0};
    std::atomic<packed_error>  page_error{};  ///< of the last try to go out, if that failed
    std::atomic<std::size_t>   out_bytes{0};
    std::atomic<std::uint64_t> entered_at{0};

    std::atomic<bool> rolled_back{false};  ///< which buffers were mapped may be forgotten
    bool              abandoned  = false;  ///< in a forked child: another thread was at it, see forking.hpp
    bool              needed     = false;  ///< abandoned, and a batch below it goes on
    bool              was_at_end = false;  ///< in a forked child: the registry's lost thread was freeing it

    std::size_t     store_errors = 0;  ///< stores that could not free all at the end
    std::error_code store_error;       ///< the last of them

    /// Nanoseconds that threads waited here, and in batches below that are over: by wait_for.
    std::array<std::atomic<std::uint64_t>, waits_known> waited{};
    waits_under_way                                     waiting_now;         ///< which do not count in it yet
    progress_meter*                                     progress = nullptr;  ///< or null; guarded by the lock

    std::size_t   waiting_bytes = 0;  ///< while it waits for its end in the background
    batch_record* next_waiting  = nullptr;
};

/// All that is known of one batch, with its batch_rest. Records are never returned to the system, so a pointer to
/// one can always be read, and is checked by `id`. Fields that other threads read are atomic, even if only one
/// thread writes them.
struct batch_record : batch_front {
    explicit batch_record(batch_rest& r) noexcept : rest(r) { primary.batch = this; }

    // What opening and ending an ordinary batch touches comes first, in as few cache lines as possible.
    std::atomic<registry_core*> registry{nullptr};
    std::atomic<batch_record*>  parent{nullptr};
    supply*                     slabs        = nullptr;  ///< where its objects live
    batch_record*               limited      = nullptr;  ///< the nearest batch with limits, itself included
    bool                        holds_parent = false;
    std::atomic<bool>           detached{false};
    std::atomic<bool>           in_chain{false};
    std::atomic<guard_place>    guard_at{guard_place::with_opener};
    bool                        is_loose = false;
    std::atomic<std::uint8_t>   ends{0};  ///< end_flags
    tenure::residency           residency = tenure::residency::memory;
    bool                        joined    = false;  ///< it uses a store that it, or a batch above it, named

    std::atomic<thread_context*> guard{nullptr};   ///< the thread whose chain of open guards it is in, or null
    batch_record*                older = nullptr;  ///< in that chain, or in its registry's list of loose batches
    std::atomic<batch_record*>   newer{nullptr};
    former_current               previous;
    std::uint32_t                index     = 0;
    std::uint8_t                 unusual   = 0;      ///< unusual_flags
    bool                         is_beside = false;  ///< counted in its parent's `guards_beside`
    std::atomic<std::uint64_t>   opened_ns{0};

    std::atomic<std::source_location> where{};
    batch_record*                     next_free = nullptr;

    // The end of any other batch also looks at the following.
    std::atomic<bool> used{false};  ///< it is more than one lane full of objects: most never are, and end shortly
    std::atomic<bool> evictable{false};  ///< to stay below the registry's memory limit
    std::atomic<bool> has_lanes{false};
    std::atomic<bool> uses_others{false};  ///< it has pins
    bool              ends_along = false;  ///< end_local_children() ends it
    std::atomic<bool> reclaim_pending{
        false};  ///< over, but its destructors are yet to run in the background; its handles are stale
    std::atomic<bool> named{false};
    gated_spin_lock   lock;  ///< guards what follows up to `members`, and the children; taken inside a unit's lock

    lane*                      lanes  = nullptr;  ///< besides `primary`
    share*                     shares = nullptr;
    unit*                      large  = nullptr;        ///< runs of one large object each
    std::atomic<stored*>       stores{nullptr};         ///< where it has buffers
    entry*                     inbox        = nullptr;  ///< ends of objects that another thread gave, newest first
    entry*                     first_buffer = nullptr;  ///< all that it owns, newest first
    entry*                     next_buffer  = nullptr;  ///< for a thread that goes through these: dropping.hpp
    membership_list*           memberships  = nullptr;  ///< what it shares with other batches
    std::atomic<std::uint64_t> members{no_common};  ///< if this is a common, with its generation: sharing_front.hpp

    paged_batch*  paged      = nullptr;  ///< of the thread that has claimed the paging
    supply*       buffers    = nullptr;  ///< if `joined`: where its buffers live, unless they name a store
    batch_record* next_along = nullptr;  ///< of those that one thread ends together

    std::atomic<paging_state>    paging{paging_state::in};
    std::atomic<errc>            cause{};         ///< why it went, or has to go, before its end
    std::atomic<std::uint64_t>   own_charge{0};   ///< what this batch has charged to `limited` and those above
    checkpoint_front*            undo = nullptr;  ///< the newest checkpoint; of the thread that may set `undoing`
    std::atomic<thread_context*> busy_thread{nullptr};  ///< it set `undoing`, or calls destructors at the end
    std::atomic<std::uint64_t>   expiry{0};      ///< the last batch here that went before its end: expiry.hpp
    std::atomic<stop_front*>     stop{nullptr};  ///< made when a token is first asked for
    int                          unwound = no_unwinding;  ///< with more uncaught exceptions, its guard rolls back
    std::atomic<bool>            checkpoint_calls_out{
        false};               ///< busy_thread runs the user's code, or waits for other threads that do
    std::atomic<bool> is_listed{false};  ///< among its parent's children: children.hpp
    batch_rest&       rest;

    bool ends_as(std::uint8_t how) const noexcept { return ends.load(std::memory_order_relaxed) & how; }
    void end_as(std::uint8_t how) noexcept {
        ends.store(static_cast<std::uint8_t>(ends.load(std::memory_order_relaxed) | how),
                   std::memory_order_relaxed);
        unusual |= unusual_flags::own;
    }

    void hold_its_parent() noexcept {
        holds_parent = true;
        unusual |= unusual_flags::own;
    }

    void                        touch() noexcept { used.store(true, std::memory_order_relaxed); }
    [[gnu::always_inline]] void add(tally ledger::* to, std::uint64_t n, std::uint64_t b, bool own) noexcept {
        touch();
        (rest.books.*to).add(n, b, own);
    }

    bool is_here() const noexcept;  ///< whether this thread opened it, or has entered its own lane
    /// Returns why nothing can be made here, or why a hold was refused.
    errc why_closed() const noexcept {
        if (errc const early = cause.load(std::memory_order_acquire); early != errc{}) return early;
        std::uint64_t const s = state.load(std::memory_order_acquire);
        if (s & batch_flags::closed) return errc::batch_ended;
        if (s & batch_flags::refusing) return errc::root_refused;
        return s & batch_flags::crowded ? errc::batch_in_use : errc::batch_ended;
    }
    bool closed() const noexcept { return state.load(std::memory_order_acquire) & batch_flags::closed; }
    bool refuses() const noexcept {  ///< whether nothing can be made here
        return state.load(std::memory_order_acquire) & (batch_flags::closed | batch_flags::refusing);
    }
};

static_assert(sizeof(batch_record) <= 512);

/// The batch whose own lane that is, without a load.
inline batch_record& owner_of_primary(lane& l) noexcept {
    static_assert(std::is_standard_layout_v<batch_front>, "a batch_front and its first member have one address");
    return static_cast<batch_record&>(reinterpret_cast<batch_front&>(l));
}

inline constexpr unsigned generation_bits = 64 - record_bits;

constexpr std::uint64_t make_id(std::uint64_t generation, std::uint32_t index) noexcept {
    return generation << record_bits | index;
}

/// Returns the tag of `state`: the low bits of the generation. With it, a thread that knows a batch by its id
/// alone can never touch the next batch in the same record.
inline std::uint64_t generation_tag(std::uint64_t id) noexcept { return id >> record_bits << state_tag_shift; }

inline bool same_batch(std::uint64_t state, std::uint64_t id) noexcept {
    return (state ^ generation_tag(id)) >> state_tag_shift == 0;
}

}  // namespace tenure::detail

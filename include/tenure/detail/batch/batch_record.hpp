// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory_resource>
#include <new>
#include <source_location>
#include <span>
#include <stop_token>
#include <system_error>

#include <tenure/batch.hpp>
#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/spin_lock.hpp>
#include <tenure/detail/batch/finalizer.hpp>
#include <tenure/detail/timing/deadlines.hpp>
#include <tenure/detail/unit/region.hpp>
#include <tenure/detail/uses/use_records.hpp>
#include <tenure/error.hpp>

namespace tenure::detail {

/// A handle without its type.
struct raw_handle {
    void const* pointer;
    word_t      word;
};

class membership_list;
struct registry_core;
struct paged_batch;
struct stored;
struct supply;
struct thread_context;
struct checkpoint_record;
struct batch_record;
struct lane;

void*             allocate_from(lane& l, std::size_t bytes, std::size_t alignment);
void              deallocate_to(lane& l, std::uint64_t id, void* p, std::size_t bytes, std::size_t alignment);
[[noreturn]] void refuse_over(std::uint64_t serial);

/// The pmr face of a lane, for one batch. Lanes are used again, and a container that outlives its batch must not
/// get at the next batch's memory: its allocations throw batch_ended, and what it gives back is ignored. See
/// lane_resources.hpp.
///
/// A template, so that a file that only includes this header pays nothing. A class's virtual functions are
/// compiled in every translation unit that could make one, and these lead to all that a batch can do.
template <class Lane>
class TENURE_SHARED lane_resource final : public std::pmr::memory_resource {
public:
    lane_resource(Lane& l, std::uint64_t serial, std::uint64_t id) noexcept : lane_(l), serial_(serial), id_(id) {}

    /// Returns whether this is the resource of `b`, and `b` lives.
    bool is_of(batch_record const& b) const noexcept { return !is_over() && lane_.batch == &b; }

private:
    bool is_over() const noexcept { return lane_.serial.load(std::memory_order_relaxed) != serial_; }

    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
        if (is_over()) [[unlikely]]
            refuse_over(serial_);
        return allocate_from(lane_, bytes, alignment);
    }
    void do_deallocate(void* p, std::size_t bytes, std::size_t alignment) override {
        if (!is_over()) deallocate_to(lane_, id_, p, bytes, alignment);
    }
    bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override { return this == &other; }

    Lane&               lane_;
    std::uint64_t const serial_;  ///< the lane's when this was made
    std::uint64_t const id_;      ///< of the batch
};

inline constexpr std::uint64_t cursor_address = (std::uint64_t{1} << 48) - 1;
inline constexpr std::uint64_t one_object     = std::uint64_t{1} << 48;
inline constexpr std::size_t window_bytes = 65'535 * 8;  ///< at most 65,535 objects, which is what a cursor counts

/// One thread's place to make objects in one batch: a bump pointer into runs of its own.
///
/// `cursor` holds the next address and, above it, the number of objects made since the window began. It is one
/// word, so that one relaxed store for each make keeps both exact for a snapshot on another thread. Only the
/// lane's own thread writes it. A thread that asks the batch to stop writes 0 to `window_end`, so that the next
/// make calls refill().
struct alignas(64) lane {
    std::atomic<std::uint64_t>   cursor{0};
    std::atomic<std::uint64_t>   window_end{0};
    word_t                       word    = 0;        ///< of handles into the current run
    entry*                       entries = nullptr;  ///< objects that have an end to run, newest first
    batch_record*                batch   = nullptr;
    std::uint64_t                run_end = 0;      ///< 0: nothing was made here yet
    std::atomic<thread_context*> thread{nullptr};  ///< the thread that makes here now, or null
    std::atomic<std::uint64_t>   serial{0};        ///< a new one for each use of this lane

    std::atomic<std::uint32_t> moving{0};  ///< odd while the four below change
    std::atomic<std::uint64_t> window_begin{0};
    std::atomic<std::uint64_t> bytes_before{0};  ///< made in windows before this one
    std::atomic<std::uint64_t> objects_before{0};
    std::atomic<std::uint64_t> units{0};        ///< in `runs`
    std::uint64_t              window_top = 0;  ///< what window_end was set to
    unit*                      runs       = nullptr;
    std::atomic<entry*>        remote{nullptr};  ///< ended by other threads, still on `entries`

    std::atomic<unit*>         queue{nullptr};     ///< units with holes to fill; under the batch's lock
    std::uintptr_t             holes     = 0;      ///< the unit whose holes are being filled
    std::uint32_t              hole_line = 0;      ///< where to look for the next hole
    bool                       claimed   = false;  ///< idle, but a call uses it just now; under the batch's lock
    bool                       in_hole   = false;  ///< the current run is a hole
    std::atomic<std::uint32_t> users{0};           ///< entries through it; changed under the batch's lock, or
                                                   ///< by the thread that made a primary lane `taken`
    lane*                             next = nullptr;
    std::atomic<lane_resource<lane>*> resource{nullptr};  ///< made when first asked for
};

/// Flags of batch_record::state. They lie above the count of holds and below the low bits of the generation.
///
/// A hold stands for something that must be over before the batch's memory can go: a child elsewhere, a lane, a
/// thread inside. The record is free for another batch when it is both `done` and `released` by its guard or
/// registry.
inline constexpr unsigned      state_tag_shift = 34;
inline constexpr unsigned      no_common_bit   = 33;  ///< of batch_record::members, never of the state
inline constexpr std::uint64_t no_common       = std::uint64_t{1} << no_common_bit;
namespace batch_flags {
inline constexpr std::uint64_t holds    = (1u << 24) - 1;
inline constexpr std::uint64_t ended    = 1u << 24;  ///< the end was asked for
inline constexpr std::uint64_t done     = 1u << 25;  ///< memory is freed
inline constexpr std::uint64_t released = 1u << 26;  ///< no guard refers to the record
inline constexpr std::uint64_t retained = 1u << 27;  ///< ended, cleanup::manual: waits for destroy
inline constexpr std::uint64_t stopping = 1u << 28;  ///< another thread asked the guard to stop
inline constexpr std::uint64_t taken    = 1u << 29;  ///< a thread uses its own lane without having its guard
inline constexpr std::uint64_t undoing  = 1u << 30;  ///< a thread takes or ends a checkpoint, or moves
                                                     ///< a retained batch: no other may enter
inline constexpr std::uint64_t used = 1u << 31;      ///< one of the holds stands for all uses of it, use_graph.hpp
inline constexpr std::uint64_t checkpointed = std::uint64_t{1} << 32;  ///< batch_record::undo is not null
inline constexpr std::uint64_t closed = ended | done | retained | stopping | undoing;  ///< nothing is made now
}  // namespace batch_flags

/// How a batch's end differs from the usual one: flags of batch_record::ends.
namespace end_flags {
inline constexpr std::uint8_t manual     = 1;  ///< it frees nothing
inline constexpr std::uint8_t background = 2;  ///< the registry's thread runs its destructors
}  // namespace end_flags

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

/// What came and went besides what the batch's own lane made. `used` is set by all that makes a batch more than
/// one lane full of objects. Most batches never are, and end by a shorter way.
struct ledger {
    std::atomic<bool>          used{false};
    tally                      given;     ///< kept or transferred out
    tally                      received;  ///< kept or transferred in
    tally                      freed;     ///< before the end
    tally                      large_made;
    std::atomic<std::uint64_t> large_units{0};
    std::atomic<std::uint64_t> shared_units{0};  ///< that no other batch counts
    std::atomic<std::uint64_t> peak{0};          ///< of bytes in use, at the last look
    std::atomic<std::uint64_t> noted{0};         ///< the cursor at that look; 0: look again before anything leaves

    void touch() noexcept { used.store(true, std::memory_order_relaxed); }
    void add(tally ledger::* to, std::uint64_t n, std::uint64_t b, bool own) noexcept {
        touch();
        (this->*to).add(n, b, own);
    }
    void reset() noexcept {
        for (tally* t : {&given, &received, &freed, &large_made}) t->reset();
        large_units.store(0, std::memory_order_relaxed);
        peak.store(0, std::memory_order_relaxed);
        noted.store(0, std::memory_order_relaxed);
        used.store(false, std::memory_order_relaxed);
    }
};

/// Handles that left a batch.
struct kept_log {
    kept_log*   next;
    std::size_t room;
    std::size_t count;

    /// Returns the `room` handles right behind this object. Their lifetime began with the memory.
    raw_handle* items() noexcept { return std::launder(reinterpret_cast<raw_handle*>(this + 1)); }

    std::span<raw_handle> handles() noexcept { return {items(), count}; }
    void                  add(raw_handle h) noexcept { items()[count++] = h; }
};

inline constexpr std::size_t name_words = 8;

inline constexpr int no_unwinding = std::numeric_limits<int>::max();

/// What was current on a thread before something else became current, to be restored later.
struct former_current {
    lane*         where   = nullptr;
    std::uint64_t serial  = 0;      ///< the lane's at that time, to tell whether it is still the same
    bool          visited = false;  ///< by set_current_batch: it is held until it is left
};

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

/// Whether a batch's memory is in the page file. `moving`: a thread moves it, and a thread that enters waits.
enum class paging_state : int { in, moving, out };

/// All that is known of one batch. Records are never returned to the system, so a pointer to one can always be
/// read, and is checked by `id`. Fields that other threads read are atomic, even if only one thread writes them.
struct batch_record {
    batch_record() noexcept { primary.batch = timer.batch = this; }

    lane primary;

    // What opening and ending an ordinary batch touches comes first, in as few cache lines as possible.
    std::atomic<std::uint64_t>  id{0};          ///< 0 while the record is between two batches
    std::atomic<std::uint64_t>  generation{0};  ///< of the last id
    std::atomic<std::uint64_t>  state{batch_flags::ended | batch_flags::done | batch_flags::released};
    std::atomic<registry_core*> registry{nullptr};
    std::atomic<batch_record*>  parent{nullptr};
    supply*                     slabs        = nullptr;  ///< where its objects live
    batch_record*               limited      = nullptr;  ///< the nearest batch with limits, itself included
    bool                        holds_parent = false;
    std::atomic<bool>           detached{false};
    std::atomic<bool>           in_chain{false};
    std::atomic<bool>           closed_elsewhere{
        false};  ///< its guard was destroyed on another thread; its opener's thread has not seen it
    bool                      is_loose = false;
    std::atomic<std::uint8_t> ends{0};  ///< end_flags
    tenure::residency         residency = tenure::residency::memory;
    bool                      joined    = false;  ///< it uses a store that it, or a batch above it, named

    std::atomic<thread_context*> guard{nullptr};   ///< the thread whose chain of open guards it is in, or null
    batch_record*                older = nullptr;  ///< in that chain, or in its registry's list of loose batches
    batch_record*                newer = nullptr;
    former_current               previous;
    std::uint32_t                children = 0;  ///< open guards of the same thread below this one
    std::uint32_t                index    = 0;
    std::atomic<std::uint64_t>   opened_ns{0};

    // The end of any other batch also looks at the following.
    spin_lock lock;  ///< guards what follows up to `next_buffer`, and
                     ///< lanes' queues; taken inside a unit's lock
    std::atomic<bool>          has_lanes{false};
    std::atomic<bool>          uses_others{false};    ///< it has pins
    bool                       ends_along = false;    ///< ends with a batch above it; guarded as `older` is
    lane*                      lanes      = nullptr;  ///< besides `primary`
    share*                     shares     = nullptr;
    unit*                      large      = nullptr;    ///< runs of one large object each
    std::atomic<stored*>       stores{nullptr};         ///< where it has buffers
    entry*                     inbox        = nullptr;  ///< ends of objects that another thread gave, newest first
    entry*                     first_buffer = nullptr;  ///< all that it owns, newest first
    entry*                     next_buffer  = nullptr;  ///< for a thread that goes through these: dropping.hpp
    paged_batch*               paged        = nullptr;  ///< of the thread that made the paging state `moving`
    kept_log*                  kept_out     = nullptr;  ///< what keep() gave away, newest first, for discard()
    membership_list*           memberships  = nullptr;  ///< what it shares with other batches; under the lock
    std::atomic<std::uint64_t> members{no_common};  ///< if this is a common, with its generation: membership.hpp

    std::atomic<std::source_location> where{};
    batch_record*                     next_free = nullptr;
    std::atomic<paging_state>         paging{paging_state::in};
    std::atomic<bool>                 evictable{false};  ///< to stay below the registry's memory limit
    ledger                            books;

    std::atomic<std::uint64_t> name[name_words]{};

    supply*       buffers    = nullptr;  ///< if `joined`: where its buffers live, unless they name a store
    batch_record* next_along = nullptr;

    std::atomic<int>           priority{0};
    std::atomic<packed_error>  page_error{};  ///< of the last try to go out, if that failed
    std::atomic<std::size_t>   out_bytes{0};
    std::atomic<std::uint64_t> entered_at{0};

    std::size_t     store_errors = 0;  ///< stores that could not free all at the end
    std::error_code store_error;       ///< the last of them

    batch_limits               limits;
    std::atomic<std::uint64_t> charged{0};  ///< with limits: in use here and below
    std::atomic<bool>          above_soft{false};
    std::atomic<std::uint64_t> own_charge{0};  ///< what this batch has charged to `limited` and those above

    std::atomic<bool> reclaim_pending{
        false};  ///< over, but its destructors are yet to run in the background; its handles are stale
    std::size_t                  waiting_bytes = 0;
    batch_record*                next_waiting  = nullptr;
    use_node                     uses;
    checkpoint_record*           undo = nullptr;  ///< the newest checkpoint; of the thread that may set `undoing`
    std::atomic<thread_context*> busy_thread{nullptr};  ///< it set `undoing`, or calls destructors at the end
    std::atomic<bool>            checkpoint_calls_out{
        false};          ///< busy_thread runs the user's code, or waits for other threads that do
    bool abandoned = false;         ///< in a forked child: another thread was at it, see forking.hpp
    bool needed    = false;         ///< abandoned, and a batch below it goes on
    int  unwound   = no_unwinding;  ///< with more uncaught exceptions than this, its guard rolls back
    // The next two belong to a batch that is `limited` by itself, which a timeout makes it.
    std::atomic<std::uint64_t> deadline{0};  ///< its own or that of a batch above, whichever is first; 0: none
    deadline_node              timer;        ///< armed if the deadline is its own

    std::atomic<errc>              cause{};             ///< why it went, or has to go, before its end
    std::atomic<bool>              rolled_back{false};  ///< which buffers were mapped may be forgotten
    std::atomic<std::uint64_t>     expiry{0};      ///< the last batch here that went before its end: expiry.hpp
    std::atomic<std::stop_source*> stop{nullptr};  ///< made when a token is first asked for

    bool ends_as(std::uint8_t how) const noexcept { return ends.load(std::memory_order_relaxed) & how; }
    void end_as(std::uint8_t how) noexcept {
        ends.store(static_cast<std::uint8_t>(ends.load(std::memory_order_relaxed) | how),
                   std::memory_order_relaxed);
    }

    bool is_here() const noexcept;  ///< whether this thread opened it, or has entered its own lane
    errc why_closed() const noexcept {
        errc const early = cause.load(std::memory_order_acquire);
        return early == errc{} ? errc::batch_ended : early;
    }
    bool closed() const noexcept { return state.load(std::memory_order_acquire) & batch_flags::closed; }
};

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

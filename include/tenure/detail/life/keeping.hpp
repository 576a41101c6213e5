// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>

#include <tenure/detail/base/owned_ptr.hpp>
#include <tenure/detail/batch/sharing_front.hpp>
#include <tenure/detail/life/calls.hpp>
#include <tenure/detail/life/entering.hpp>
#include <tenure/detail/life/public_calls.hpp>
#include <tenure/detail/objects/ownership_transfer.hpp>

namespace tenure::detail {

/// How objects go to the parent of their batch.

/// Returns whether the objects of a batch may go in the usual way, as far as the batch itself says. To be asked
/// before anything that its reclaimer may be changing.
[[gnu::always_inline]] inline bool keeps_as_usual(batch_record const& from,
                                                  std::uint64_t       unless = batch_flags::closed) noexcept {
    return !(from.state.load(std::memory_order_acquire) & (unless | batch_flags::checkpointed));
}

/// Writes down that objects of `bytes` in all were kept; `own`: through the batch's own lane.
[[gnu::always_inline]] inline void note_kept(batch_record& from, batch_record& to, std::size_t objects,
                                             std::size_t bytes, bool own) noexcept {
    ledger& in = to.rest.books;
    from.rest.books.given.add(objects, bytes, own);
    in.received.add(objects, bytes, to.is_here());
    in.noted.store(0, std::memory_order_relaxed);
}

/// Keeps one object of the unit from which the batch's own lane kept last, if the caller has that lane, the
/// object's granules are in one word of bits, no other thread has the unit's lock, and the batch has made nothing
/// since then. False: another case, and nothing was done. The batch is open here, and the unit its own, so this
/// needs no read_section.
[[gnu::always_inline]] inline bool keep_near(lane& way, raw_handle h) noexcept {
    constexpr auto relaxed = std::memory_order_relaxed;
    batch_record&  from    = *way.batch;
    if (&way != &from.primary || !keeps_as_usual(from)) return false;
    kept_log* const log = from.primary.kept_out.load(relaxed);
    if (!log || log->is_full()) return false;
    kept_unit const      unit   = log->last;
    std::uintptr_t const begin  = extent_begin(to_address(h.pointer), h.word);
    auto&                word   = table_word(unit.base);
    auto const           number = static_cast<std::uint32_t>(h.word & extent_mask);  // of granules
    auto const           first  = static_cast<std::uint32_t>(begin >> granule_shift) % granules_a_word;
    if ((begin ^ unit.base) >> unit_shift | (h.word ^ unit.word) >> generation_shift) return false;
    if (h.word & header_flag || number - 1 >= granules_a_word - first) return false;
    batch_record* const to     = from.parent.load(relaxed);
    std::uint64_t const cursor = from.primary.cursor.load(relaxed);
    if (from.limited || to->closed() || !cursor || cursor != from.rest.books.noted.load(relaxed)) return false;
    if (word.load(relaxed) != unit.word || !unit.u->lock.try_lock()) return false;
    auto const keep_in_unit = [&]() __attribute__((always_inline)) {
        if (from.state.load(std::memory_order_acquire) & (batch_flags::closed | batch_flags::used)) return false;
        share* const s = unit.rest->shares.load(relaxed);
        if (word.load(relaxed) != unit.word || !s || s->owner != to || s->next_here) return false;
        std::size_t const   i    = word_of(begin);
        std::uint32_t const mask = ~std::uint32_t{0} >> (granules_a_word - number) << first;
        std::uint32_t const had  = s->objects[i].load(relaxed);
        if (had & mask) return false;
        s->objects[i].store(had | mask, std::memory_order_release);
        note_change(*unit.track, i);
        s->granules += number;
        return true;
    };
    bool const kept = keep_in_unit();
    unit.u->lock.unlock();
    if (!kept) return false;
    note_kept(from, *to, 1, std::size_t{number} << granule_shift, true);
    log->add(h);
    return true;
}

/// Objects at the front of a list, and their bytes.
struct kept_run {
    std::size_t objects = 0;
    std::size_t bytes   = 0;
};

enum class keep_step { ask, commit };

/// Looks at objects from the front of a list, as long as they are in one unit, and each is the usual case: a small
/// object without a destructor in the batch's own memory, in a unit where nothing was freed and only the parent has
/// a share, with no limits and no uses by other batches. `unless`: the states in which neither batch may be; `over`
/// for a thread that has claimed both. Returns the run of such objects. After `ask` the parent has its share;
/// `commit` keeps them, but does not log them. The caller is in a read_section.
template <keep_step step>
TENURE_SLOW kept_run keep_run(lane& way, raw_handle const* list, raw_handle const* end,
                              std::uint64_t unless) noexcept {
    constexpr auto        relaxed = std::memory_order_relaxed;
    constexpr std::size_t most    = 256;  // under a spin lock
    constexpr bool        commits = step == keep_step::commit;
    auto const is_unusual = [](word_t w) { return w & header_flag || (w & extent_mask) - 1 >= last_unbound; };

    batch_record& from = *way.batch;
    kept_run      run;
    raw_handle    h = *list;
    if (!keeps_as_usual(from, unless) || h.word & cell_flag || is_unusual(h.word)) return run;
    batch_record* const  to    = from.parent.load(relaxed);
    std::uintptr_t const start = extent_begin(to_address(h.pointer), h.word);
    region* const        r     = find_region(start);
    if (from.limited || !to || to->state.load(std::memory_order_acquire) & unless || !r) return run;
    place const p = place_in(*r, start);
    {
        std::scoped_lock const guard(p.u->lock);
        if (from.state.load(std::memory_order_acquire) & (unless | batch_flags::used)) return run;
        word_t const word = p.word().load(relaxed);
        if ((word ^ h.word) >> generation_shift || p.head()->home.load(relaxed) != &from) return run;
        share* s = p.rest().shares.load(relaxed);
        if (!s) s = share_for(p, to);
        if (!s || s->owner != to || s->next_here) return run;

        word_t        known   = 0;  // whose bytes are known
        std::size_t   bytes   = 0;
        std::uint32_t changed = 0;
        if (static_cast<std::size_t>(end - list) > most) end = list + most;
        for (; list != end; ++list) {
            h = *list;
            if (h.word != known) {
                if ((h.word ^ word) >> generation_shift || is_unusual(h.word)) break;
                known = h.word;
                bytes = decode_extent(known);
            }
            std::uintptr_t const begin = extent_begin(to_address(h.pointer), known);
            if (begin - p.base > unit_bytes - bytes || test(s->objects, begin)) break;
            if constexpr (commits)
                for_words(begin, begin + bytes, [&](std::uint32_t i, std::uint32_t mask) {
                    s->objects[i].store(s->objects[i].load(relaxed) | mask, std::memory_order_release);
                    changed |= group_bit(i);
                });
            ++run.objects;
            run.bytes += bytes;
        }
        if constexpr (commits) {
            tracking& t = p.track();
            t.changed   = static_cast<std::uint16_t>(t.changed | changed);
            s->granules += static_cast<std::uint32_t>(run.bytes >> granule_shift);
            way.kept_out.load(relaxed)->last = {p.base, word, p.u, &p.rest(), &t};
        }
    }
    if (commits && run.objects) {
        note_peak(from);
        note_kept(from, *to, run.objects, run.bytes, &way == &from.primary);
    }
    return run;
}

/// Allocates an empty log, or returns null if memory is full. The log lies outside the slabs: it is no use of the
/// batch's own.
inline kept_log* make_log(batch_record& from, std::size_t room, kept_log* next) noexcept {
    void* const p = ::operator new(sizeof(kept_log) + room * sizeof(raw_handle), std::nothrow);
    if (!p) return nullptr;
    from.touch();
    return ::new (p) kept_log{next, room};
}

/// Reserves room in the lane's newest log for `n` kept objects. Returns false if memory is full.
inline bool reserve_log(lane& way, std::size_t n) noexcept {
    kept_log* const newest = way.kept_out.load(std::memory_order_relaxed);
    if (newest && newest->room - newest->size() >= n) return true;
    std::size_t const more = newest ? std::min<std::size_t>(newest->room * 4, 1000) : 30;
    kept_log* const   log  = make_log(*way.batch, std::max(n, more), newest);
    if (log) way.kept_out.store(log, std::memory_order_release);
    return log;
}

/// Whether this thread is a guest in a scope that another thread nested in `to`. Such a scope does not hold its
/// parent, so while the guest keeps something there, the parent's thread could take it for alone in the parent, and
/// take a checkpoint or go back to one.
inline bool is_guest_below(batch_record const& from, batch_record const& to) noexcept {
    return from.guard.load(std::memory_order_acquire) != &this_thread &&
           from.in_chain.load(std::memory_order_acquire) && !to.is_here() && !is_root(to);
}

/// Keeps one object in the usual case that keep_run() knows. False: another case, and nothing was done.
TENURE_SLOW inline bool keep_one(lane& way, raw_handle h) noexcept {
    constexpr std::uint64_t usual = batch_flags::closed;
    read_section const      here;
    batch_record const&     from = *way.batch;
    batch_record const*     to   = from.parent.load(std::memory_order_relaxed);
    if (!keeps_as_usual(from) || !to || is_guest_below(from, *to)) return false;
    if (kept_log const* const log = way.kept_out.load(std::memory_order_relaxed); !log || log->is_full())
        if (!keep_run<keep_step::ask>(way, &h, &h + 1, usual).objects || !reserve_log(way, 1)) return false;
    if (!keep_run<keep_step::commit>(way, &h, &h + 1, usual).objects) return false;
    way.kept_out.load(std::memory_order_relaxed)->add(h);
    return true;
}

/// One keep() of objects of `from`, a batch of this thread, to its parent, all or none. Takes their handles and
/// prepares each object, then moves them. Between these, another thread may give the batch objects that the list
/// names and that were not its own: they are not prepared, and stay.
class keeping final : public handle_sink {
public:
    /// `unless`: as of keep_run().
    keeping(lane& way, batch_record& to, std::uint64_t unless = batch_flags::closed) noexcept
        : handle_sink(few_, few_ + most_few),
          unless_(unless),
          way_(way),
          from_(*way.batch),
          to_(to),
          to_lane_(&to.primary),
          from_lanes_(from_),
          transfer_(from_, to, buffers_) {}
    ~keeping() {
        while (kept_log* const k = oldest_) {
            oldest_ = k->next;
            ::operator delete(k);
        }
    }

    /// Moves all, after the last handle was added. Errors: not_owner, stale_handle, why_closed() of `from`, those
    /// of ownership_transfer::prepare().
    failure commit() noexcept {
        if (why_ || !prepare_new()) return why_;
        std::size_t const few = close_list();
        if (few + shared_objects_ == 0) return {};
        if (!reserve_log(way_, few + shared_objects_)) return {errc::memory_full, &from_, sizeof(kept_log)};
        kept_log& first = *way_.kept_out.load(std::memory_order_relaxed);
        first.resize(first.size() + move(few_, few_ + few, first.items() + first.size()));
        while (kept_log* const k = oldest_) {
            std::size_t const n = k->size();
            oldest_             = k->next;
            k->next             = way_.kept_out.load(std::memory_order_relaxed);
            k->resize(0);
            way_.kept_out.store(k, std::memory_order_release);
            k->resize(move(k->items(), k->items() + n, k->items()));
        }
        if (shared_) shared_->commit([&](raw_handle h) { first.add(h); });
        return transfer_.lost() ? failure{from_.why_closed(), &from_} : failure{};
    }

private:
    static constexpr std::size_t most_few = 64;

    bool flush() noexcept override { return prepare_new() && (next_ != end_ || begin_log()); }

    /// Prepares what was added since the last call, and drops what is not to be moved. False: `why_` is set.
    bool prepare_new() noexcept {
        raw_handle* out = new_;
        for (raw_handle* at = new_; at != next_;) {
            if (std::size_t const n = keep_run<keep_step::ask>(way_, at, next_, unless_).objects) {
                if (out != at) std::copy_n(at, n, out);
                out += n;
                at += n;
            } else {
                raw_handle const h = resolve(*at++);
                if (prepare(h)) *out++ = h;
                else if (why_) return false;
            }
        }
        new_ = next_ = out;
        return true;
    }

    /// Prepares one object. Returns whether it is to be moved.
    bool prepare(raw_handle h) noexcept {
        if (is_alive(h) && owner_of(extent_of(h)) == &from_) {
            why_ = transfer_.prepare(h);
            if (why_.code == errc::stale_handle && is_alive(h)) why_.code = errc::not_owner;  // moved just now
            return !why_;
        }
        auto const [owner, id] = find_owner(h);
        if (!owner) {
            why_ = {errc::stale_handle, &from_};
        } else if (is_common(*owner)) {
            if (!shared_) shared_ = front_of_sharing().begin(from_, to_);
            why_ = shared_ ? shared_->prepare(id, h) : failure{errc::memory_full, &to_, sizeof(std::uint64_t)};
            ++shared_objects_;
        } else if (owner != &to_ && !is_above(*owner, to_)) {
            why_ = {errc::not_owner, &from_};
        }
        return false;
    }

    /// Notes how many handles the newest log has. Returns how many lie in none.
    std::size_t close_list() noexcept {
        if (!newest_) return static_cast<std::size_t>(next_ - few_);
        newest_->resize(static_cast<std::size_t>(next_ - newest_->items()));
        return most_few;
    }

    /// Begins a log with room for as many handles as there are.
    bool begin_log() noexcept {
        close_list();
        std::size_t const room = newest_ ? newest_->room * 2 : most_few;
        kept_log* const   k    = make_log(from_, room, nullptr);
        if (!k) {
            why_ = {errc::memory_full, &from_, sizeof(kept_log) + room * sizeof(raw_handle)};
            return false;
        }
        (newest_ ? newest_->next : oldest_) = k;
        newest_                             = k;
        new_ = next_ = k->items();
        end_         = next_ + room;
        return true;
    }

    /// Moves prepared objects, and copies the handles of those that it moved to `out`, which may be `at`. Returns
    /// how many these are.
    std::size_t move(raw_handle const* at, raw_handle const* end, raw_handle* out) noexcept {
        raw_handle* const first = out;
        while (at != end) {
            if (std::size_t const n = keep_run<keep_step::commit>(way_, at, end, unless_).objects) {
                if (out != at) std::copy_n(at, n, out);
                out += n;
                at += n;
            } else {
                raw_handle const h = *at++;
                if (is_alive(h) && transfer_.commit(h)) *out++ = h;
            }
        }
        return static_cast<std::size_t>(out - first);
    }

    std::uint64_t const    unless_;
    lane&                  way_;  ///< this thread's, of `from_`
    batch_record&          from_;
    batch_record&          to_;
    read_section const     here_;
    buffers_among          buffers_;
    lane_claim const       to_lane_;
    idle_lanes_claim const from_lanes_;
    ownership_transfer     transfer_;
    failure                why_;

    owned_ptr<share_transfer_front> shared_;
    std::size_t                     shared_objects_ = 0;

    // The handles of what is to be moved, in order: the first in `few_`, the others in logs.
    raw_handle* new_    = few_;  ///< from here on they are not prepared
    kept_log*   oldest_ = nullptr;
    kept_log*   newest_ = nullptr;
    raw_handle  few_[most_few];
};

/// Does one keep() of objects of the batch in which `way` is this thread's lane. Errors: as keeping::commit(), and
/// why_closed() of either batch.
TENURE_SLOW inline failure keep_listed(lane& way, all_handles handles) {
    batch_record& from = *way.batch;
    if (from.closed()) return {from.why_closed(), &from};
    batch_record* const to = from.parent.load(std::memory_order_relaxed);
    if (!to) return {errc::not_owner, &from};
    std::optional<kept_open> held;
    if (is_guest_below(from, *to) && !held.emplace(*to, to->id.load(std::memory_order_acquire)))
        return {to->why_closed(), to};
    if (to->closed()) return {to->why_closed(), to};
    keeping list(way, *to);
    handles(list);
    return list.commit();
}

}  // namespace tenure::detail

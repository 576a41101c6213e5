// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>

#include <tenure/detail/checkpoints/newer.hpp>
#include <tenure/detail/checkpoints/taking_checkpoints.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Ends a checkpoint: what came after it goes, or stays. Nobody else is in the batch meanwhile.

/// Guards newer memory, so that while a destructor runs, handles to objects newer than its own are stale.
inline void guard_newer(batch_record& b, checkpoint_record& c) noexcept {
    for_lanes(b, [&](lane& l) {
        lane_mark const* const m = c.mark_of(l);
        for (unit* u = l.runs; u != (m ? m->runs : nullptr); u = u->next) guard_run(u);
        if (!m || !m->goes_on) return;
        std::uintptr_t const end = m->runs->address + (std::size_t{m->runs->length} << unit_shift);
        for_units(m->cursor, end, [](place p, std::uintptr_t, std::uintptr_t) {
            std::scoped_lock const guard(p.u->lock);
            guard_word(p);
        });
    });
    for (unit* u = b.large; u != c.large; u = u->next) guard_run(u);
    std::scoped_lock const guard(b.lock);
    for (share* s = b.shares; s; s = s->next_owned) guard_word({region_of(s->base), s->where, s->base});
}

/// Makes an entry the first of its list. Does not write if it already is, because the memory may be read-only.
inline void set_first(entry* e) noexcept {
    if (e && e->prev) e->prev = nullptr;
}

/// Returns whether anything newer has an end to run.
inline bool has_newer_ends(batch_record& b, checkpoint_record const& c) noexcept {
    {
        std::scoped_lock const guard(b.lock);
        if (b.inbox != c.inbox || b.rest.before || b.rest.after) return true;
    }
    bool any = b.first_buffer != c.first_buffer;
    for_lanes(b, [&](lane const& l) {
        lane_mark const* const m = c.mark_of(l);
        any                      = any || l.entries != (m ? m->entries : nullptr);
    });
    return any;
}

/// Runs the ends of what is newer, newest first.
inline void run_newer(batch_record& b, checkpoint_record& c) noexcept {
    run_locked(b, b.rest.before);  // a checkpoint is refused where there are deferred calls: all are newer
    run_locked(b, b.inbox, c.inbox);
    for_lanes(b, [&](lane& l) {
        lane_mark const* const m = c.mark_of(l);
        run_entries(b, l, m ? m->entries : nullptr);
        set_first(l.entries);
    });
    run_locked(b, b.rest.after);
    run_buffers(b, c.first_buffer);
}

/// Forgets newer entries that other threads ended: they go with their memory.
inline void forget_newer_ended(batch_record& b, checkpoint_record& c) noexcept {
    for_lanes(b, [&](lane& l) {
        entry* e    = l.remote.exchange(nullptr, std::memory_order_acquire);
        entry* kept = nullptr;
        while (e) {
            auto* const after = reinterpret_cast<entry*>(e->state.load(std::memory_order_relaxed) & ~entry::dead);
            if (c.covers(to_address(e)) || c.listed.has(e)) {
                e->state.store(reinterpret_cast<std::uintptr_t>(kept) | entry::dead, std::memory_order_relaxed);
                kept = e;
            }
            e = after;
        }
        l.remote.store(kept, std::memory_order_release);
    });
}

/// Restores the contents of buffers. Throws what the store says; the checkpoint then stays, and the rollback can
/// be tried again.
inline void restore_buffers(checkpoint_record const& c) {
    for (saved_buffer const& s : c.buffers) {
        if (!s.copy.bytes) continue;
        any_store& store = s.what.from->store;
        if (auto const done = store.try_copy(s.copy, 0, s.what.where, 0, s.copy.bytes); !done)
            throw_store_error(done.error(), "roll back a buffer in", store);
    }
}

inline void restore_bytes(checkpoint_record& c) noexcept {
    for (saved_area& x : c.areas) {
        if (!x.pages) copy_whole(x, true);
        else {
            quiet_tools const quiet;
            x.for_saved([&](std::size_t from, std::size_t to) {
                std::uintptr_t const begin = to_address(x.page(from));
                copy_unchecked(to_pointer(begin), x.copy_of(from), std::min(to_address(x.page(to)), x.end) - begin);
            });
        }
    }
}

/// Removes the newest checkpoint.
inline void pop(batch_record& b) noexcept {
    std::unique_ptr<checkpoint_record> const c(newest_checkpoint(b));
    b.undo = c->below;
    if (!b.undo) b.state.fetch_and(~batch_flags::checkpointed, std::memory_order_release);
}

/// Makes handles to newer large objects whole again, because the batch goes on with them and no end is left to
/// run.
inline void unguard_newer_large(batch_record const& b, checkpoint_record const& c) noexcept {
    for (unit const* u = b.large; u != c.large; u = u->next) {
        zeroed_atomic<word_t>* const words = &table_word(u->address);
        for (std::size_t i = 0; i < u->length; ++i)
            words[i].store(words[i].load(std::memory_order_relaxed) | whole_flag, std::memory_order_release);
    }
}

/// Returns the batch to its newest checkpoint, which is then over. Throws what restore_buffers() throws; the batch
/// then goes on as it is, without what had an end to run.
inline void go_back(batch_record& b, exclusive_claim const& claim) {
    checkpoint_record& c = *newest_checkpoint(b);
    note_peak(b);
    for_lanes(b, [](lane& l) { close_window(l); });
    guard_newer(b, c);
    if (has_newer_ends(b, c) || !c.buffers.empty()) claim.will_call_out();
    {
        ancestor_is_current const above(b);
        run_newer(b, c);
    }
    claim.await_others();
    forget_newer_ended(b, c);
    refund_use(b, free_gathered_so_far(b));
    struct guard {
        batch_record*      b;
        checkpoint_record& c;
        ~guard() {
            if (b) unguard_newer_large(*b, c);
        }
    } failed{&b, c};
    restore_buffers(c);
    failed.b = nullptr;
    claim.has_called_out();

    bool const        own   = b.is_here();
    batch_usage const now   = usage_of(b);
    std::size_t const bytes = now.bytes - c.bytes;
    mark_new_shares_dead(b, c);
    mark_dead_in_shares(b, c);
    give_newer_large(b, c);
    for_lanes(b, [&](lane& l) { take_back(b, l, c); });
    if (b.first_buffer)
        b.rest.rolled_back.store(true, std::memory_order_release);  // the buffers' flags are older now
    restore_bytes(c);
    for (lane_mark const& m : c.lanes) set_first(m.entries);  // the entry may lie in bytes of another batch
    b.add(&ledger::freed, now.objects - c.objects, bytes, own);
    b.rest.books.noted.store(0, std::memory_order_relaxed);
    unwatch(c);
    if (c.below)
        for_pages_clean_before(c, [](saved_area& older, std::size_t i, std::byte const*) {
            if (!protect(older.page(i), page_bytes(), PROT_READ)) older.save_now(i);
        });
    pop(b);
    refund_use(b, bytes);
}

/// Ends the newest checkpoint, and keeps what came after it.
inline void forget_checkpoint(batch_record& b) noexcept {
    checkpoint_record& c = *newest_checkpoint(b);
    unwatch(c);
    if (c.below)
        for_pages_clean_before(c, [](saved_area& older, std::size_t i, std::byte const* copy) {
            copy_unchecked(older.copy_of(i), copy, page_bytes());
            older.pages[i].store(page_state::saved, std::memory_order_release);
        });
    std::uint32_t const depth = c.depth;
    pop(b);
    for (unit *u = b.large, *next; u; u = next) {
        next                    = u->next;
        std::uint32_t& given_up = rest_at(u->address).given_up;
        if (given_up != depth) continue;
        given_up = 0;
        if (is_under_checkpoint(b, u->address)) given_up = depth - 1;
        else free_large_piece(b, u);
    }
}

inline void checkpoint_record::drop_all(batch_record& b) noexcept {
    while (b.undo) forget_checkpoint(b);
}

/// Rolls back to the newest checkpoint if `back` is set, else commits it. Throws no_checkpoint, batch_ended,
/// batch_in_use, and what stores say.
inline void end_checkpoint(batch_record& b, std::uint64_t id, bool back) {
    auto const fail = [&](errc why) {
        raise(error(why, (back ? "roll back batch " : "commit batch ") + label_of(b)));
    };
    if (is_root(b)) fail(errc::no_checkpoint);
    exclusive_claim const claim(b, id, unless_over);
    if (claim.why() != errc{}) fail(claim.why());
    if (!b.undo) fail(errc::no_checkpoint);
    if (back) go_back(b, claim);
    else forget_checkpoint(b);
}

/// Rolls back to the first checkpoint if the guard goes because the stack unwinds: nothing was committed then. The
/// registry counts a rollback that a store, or memory that is full, prevents: a second exception would end the
/// program.
inline void checkpoint_record::guard_closes(batch_record& b, std::uint64_t id) noexcept {
    if (std::uncaught_exceptions() <= b.unwound) return;
    auto const why = thrown_by([&] {
        while (has_checkpoint(b)) end_checkpoint(b, id, true);
    });
    if (why) b.registry.load(std::memory_order_relaxed)->failed_rollbacks.fetch_add(1);
}

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <tenure/detail/buffers/buffers.hpp>
#include <tenure/detail/checkpoints/checkpoint_areas.hpp>
#include <tenure/detail/life/exclusive_claim.hpp>
#include <tenure/type_name.hpp>

namespace tenure::detail {

/// Checks one entry of a list for a checkpoint. It needs nothing, is a buffer to copy, or is a reason to refuse.
/// Throws batch_in_use, not_restorable.
class entry_check {
public:
    explicit entry_check(batch_record& b) : batch_(b) {}

    void operator()(entry* e) {
        std::uintptr_t const state = e->state.load(std::memory_order_acquire);
        if (state & (entry::dead | entry::moved)) return listed.add(e);
        if (state & entry::proxied) {
            auto const* const      p = static_cast<proxy const*>(e);
            std::scoped_lock const guard(unit_at(to_address(p->object))->lock);
            if (p->listed)
                raise(error(errc::batch_in_use, "checkpoint of batch " + label_of(batch_) + ": the batch that " +
                                                    what_of(state) + " came from is still at it"));
            e = p->object;
        }
        finalizer const& f = finalizer_of(state);
        if (is_buffer(f) && !buffer_behind(e).is_here()) refuse("an evicted buffer");
        if (is_buffer(f)) buffers.push_back({buffer_behind(e), {}});
        else if (!f.restorable) refuse(what_of(state));
    }

    [[noreturn]] void refuse(std::string const& what) const {
        raise(error(errc::not_restorable, "checkpoint of batch " + label_of(batch_) + ", which has " + what));
    }

    std::vector<saved_buffer> buffers;
    entry_addresses           listed;

private:
    static std::string what_of(std::uintptr_t state) {
        finalizer const& f = finalizer_of(state);
        if (is_buffer(f)) return "a buffer";
        bool const adopted = f.drop && f.size;
        return adopted ? "an adopted object of type " + pointee_name(*f.type)
                       : "an object of type " + type_name(*f.type);
    }

    batch_record& batch_;
};

/// Copies each buffer within its store. Throws what the store says, not_restorable, std::bad_alloc.
inline void copy_buffers(checkpoint_record& c, entry_check const& check) {
    for (saved_buffer& s : c.buffers) {
        supply& from = *s.what.from;
        if (!from.store.capabilities().copyable) check.refuse("a buffer in store " + from.store.describe());
        if (std::ranges::find(c.copies, &from, &saved_copies::in) != c.copies.end()) continue;
        owned_block_list room = make_block_list(c.buffers.size());
        if (!room) raise(std::bad_alloc());
        c.copies.push_back({&from, std::move(room)});
    }
    for (saved_buffer& s : c.buffers) {
        any_store&            store = s.what.from->store;
        constexpr char const* call  = "copy a buffer for a checkpoint in";
        result<block> const   copy  = store.allocate(s.what.where.bytes, 16);
        if (!copy) throw_store_error(copy.error(), call, store);
        std::ranges::find(c.copies, s.what.from, &saved_copies::in)->blocks->add(*copy);
        s.copy          = *copy;
        auto const done = s.copy.bytes ? store.try_copy(s.what.where, 0, *copy, 0, copy->bytes) : result<void>();
        if (!done) throw_store_error(done.error(), call, store);
    }
}

/// Takes a checkpoint of the batch with that id. Throws batch_ended, batch_in_use, not_restorable, memory_full,
/// std::bad_alloc and what stores say; nothing has changed then.
inline void take_checkpoint(batch_record& b, std::uint64_t id) {
    auto const fail = [&](errc why) { raise(error(why, "checkpoint of batch " + label_of(b))); };
    if (is_root(b)) fail(errc::batch_in_use);
    exclusive_claim const claim(b, id, batch_flags::closed);
    if (claim.why() != errc{}) fail(claim.why());

    auto        c = std::make_unique<checkpoint_record>();
    entry_check check(b);
    c->below = b.undo;
    c->depth = b.undo ? b.undo->depth + 1 : 1;
    for_lanes(b, [&](lane& l) {
        close_window(l);
        if (!b.undo) drain_remote(l);  // else what is listed there may be older, and stays
        std::uintptr_t const at     = address_in(l.cursor.load(std::memory_order_relaxed));
        std::uintptr_t const hole   = l.in_hole && at < l.run_end ? l.run_end : 0;
        bool const           inside = !l.in_hole && l.runs && at - l.runs->address < l.run_end - l.runs->address &&
                            l.run_end == l.runs->address + (std::size_t{l.runs->length} << unit_shift);
        c->lanes.push_back({&l, l.runs, l.entries, at, inside, hole});
        for (entry* e = l.entries; e; e = e->next) check(e);
    });
    for (entry* list : {b.rest.before, b.inbox, b.rest.after, b.first_buffer})
        for (entry* e = list; e; e = e->next) check(e);
    c->large        = b.large;
    c->inbox        = b.inbox;
    c->first_buffer = b.first_buffer;
    c->buffers      = std::move(check.buffers);
    c->listed       = std::move(check.listed);
    c->listed.sort();

    note_peak(b);
    batch_usage const now = usage_of(b);
    c->objects            = now.objects;
    c->bytes              = now.bytes;
    if (!c->buffers.empty()) claim.will_call_out();
    copy_buffers(*c, check);
    claim.has_called_out();
    c->areas = areas_of(b, c->lanes, c->listed);
    give_room(*c);
    page_saver::be_ready_for_forks();
    if (!watch(*c)) {
        unwatch(*c);
        fail(errc::memory_full);
    }
    b.undo = c.release();
    b.touch();
    b.state.fetch_or(batch_flags::checkpointed, std::memory_order_release);
}

}  // namespace tenure::detail

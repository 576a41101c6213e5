// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <sched.h>

#include <tenure/detail/base/function_ref.hpp>
#include <tenure/detail/batch/waiting.hpp>
#include <tenure/detail/blocks/copying.hpp>
#include <tenure/detail/buffers/buffer_moves.hpp>
#include <tenure/detail/buffers/derivation.hpp>
#include <tenure/detail/objects/read_section.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Takes the bytes of buffers away, and brings them back.

/// Frees the buffer's block, if it has one; the buffer stays. Errors: stale_handle; not_owner if its store keeps
/// it by name; object_pinned if a pin holds it or a derivation or another call reads it; not_restorable if it is
/// older than a checkpoint.
inline failure evict_one(registry_core& r, raw_handle h) {
    return with_owner(r, h, nullptr, [&](batch_record& owner, extent const& x) -> failure {
        if (has_checkpoint(owner) && is_under_checkpoint(owner, x.begin)) return {errc::not_restorable, &owner};
        buffer_record was{};
        for (;; ::sched_yield()) {
            use_lock const       guard(owner, x);
            buffer_record* const b = buffer_of(h, x, owner);
            if (!b) return {errc::stale_handle};
            if (b->evicted()) return {};
            if (b->in_transit()) continue;
            if (b->lent()) return {errc::not_owner, &owner};
            if (b->readers() || guard.pinned()) return {errc::object_pinned, &owner};
            was      = *b;
            b->where = {0, was.where.bytes};
            b->set_lent(true);
            if (derivation_front* const how = b->made_by()) how->count_use(false);
            b->set_evicted(true);
            break;
        }
        free_stored(owner, *was.from, was.where);
        refund_batch(owner, was.where.bytes);
        return {};
    });
}

/// Evicts a buffer as evict_one() does, and also what it was made from, as far as that can be made again and
/// nothing that has its bytes was made from it.
inline failure evict_with_inputs(registry_core& r, raw_handle h) {
    if (failure const why = evict_one(r, h)) return why;
    std::vector<raw_handle> done{h};
    while (!done.empty()) {
        raw_handle const at = done.back();
        done.pop_back();
        buffer_view const v = look_at(r, at);
        if (!v.made_by) continue;
        for (derivation::input const& i : v.made_by->inputs)
            if (i.made_by && i.made_by->used_by.load(std::memory_order_relaxed) == 0 && !evict_one(r, i.buffer))
                done.push_back(i.buffer);
    }
    return {};
}

/// Gives an evicted buffer a block of its store again, with what `fill(supply, block)` writes there. Does nothing
/// if it has a block. Throws what make_buffer throws, and what `fill` throws.
template <class F>
void renew_buffer(registry_core& r, raw_handle h, std::size_t alignment, F fill) {
    failure const why = with_owner(r, h, nullptr, [&](batch_record& owner, extent const& x) -> failure {
        std::optional<buffer_record> const seen = look_at_buffer(h, x, owner);
        if (!seen) return {errc::stale_handle};
        if (!seen->evicted()) return {};
        if (errc const over = owner.cause.load(std::memory_order_acquire); over != errc{}) return {over, &owner};
        supply&           s     = *seen->from;
        std::size_t const bytes = seen->where.bytes;
        charge_guard      charged(owner);
        if (owner.limited)
            if (failure const refused = charged.add(bytes)) return refused;
        promise_guard room(owner, s);
        if (!room) return {errc::memory_full, &owner, sizeof(block)};
        std::uint64_t const id    = owner.id.load(std::memory_order_relaxed);
        result<block> const fresh = s.store.try_allocate_in(id, bytes, alignment);
        if (!fresh) throw_store_error(fresh.error(), "bring a buffer back to", s.store);
        fresh_block target(owner, s, *fresh, room);
        fill(s, *fresh);
        object_lock const    guard(x);
        buffer_record* const b = buffer_of(h, x, owner);
        if (!b || !b->evicted() || b->from != &s) return {errc::stale_handle};  // transferred: tried again
        if (errc const over = owner.cause.load(std::memory_order_acquire); over != errc{}) return {over, &owner};
        target.keep(&stored::came);
        charged.keep();
        b->where = *fresh;
        b->set_lent(false);
        if (derivation_front* const how = b->made_by()) how->count_use(true);
        b->set_evicted(false);
        return {};
    });
    if (why) throw_failure(why, "bring a buffer back ");
}

/// Keeps inputs where they are while a derivation reads them.
class input_hold {
public:
    input_hold(registry_core& r, std::vector<derivation::input> const& inputs) : registry_(r), inputs_(inputs) {
        count(1);
    }
    ~input_hold() { count(-1); }
    input_hold(input_hold const&)            = delete;
    input_hold& operator=(input_hold const&) = delete;

private:
    void count(int n) const {
        for (derivation::input const& i : inputs_) [[maybe_unused]]
            failure const gone = with_record(registry_, i.buffer, [&](buffer_record& b) { b.add_readers(n); });
    }

    registry_core&                        registry_;
    std::vector<derivation::input> const& inputs_;
};

/// Runs the derivation of a buffer that has no bytes and whose inputs have theirs; or waits for the thread that
/// runs it, and gets the same answer. Throws evicted if the derivation reads what it makes; and what the run
/// throws.
inline void run_derivation(registry_core& r, raw_handle h, derivation& how) {
    std::shared_ptr<derivation_run> run;
    bool                            mine = false;
    {
        read_section const     here;  // begun before the lock, so that no section ends under it
        std::scoped_lock const guard(running_derivations.mutex);
        if (is_alive(h) && static_cast<buffer_record const*>(h.pointer)->is_here()) return;
        if (how.running && how.running->by == &this_thread)
            raise(error(errc::evicted, "a derivation that reads what it makes"));
        mine = !how.running;
        if (mine) running_derivations.begin(how.running);
        run = how.running;
    }
    if (mine) {
        run->failure = thrown_by([&] {
            input_hold const inputs(r, how.inputs);
            renew_buffer(r, h, how.alignment, [&](supply& s, block into) { how.maker->run({s.store, into, s}); });
        });
        std::scoped_lock const guard(running_derivations.mutex);
        running_derivations.end(*run);
        run->done.store(1, std::memory_order_release);
        run->done.notify_all();
    } else {
        waiting_here const timed(wait_for::batch);
        run->done.wait(0, std::memory_order_acquire);
    }
    if (run->failure) std::rethrow_exception(run->failure);
}

/// Brings the buffer's bytes back, and first what that needs, along a chain of derivations of any length. Throws
/// stale_handle; evicted if a buffer has no derivation, or the cause if its batch was cancelled or expired; and
/// what derivations and stores throw.
TENURE_COLD inline void bring_back(raw_handle h) {
    registry_core& r = static_cast<buffer_record const*>(h.pointer)->from->registry;
    for (std::vector<raw_handle> wanted{h}; !wanted.empty();) {
        raw_handle const  at   = wanted.back();
        char const* const what = wanted.size() == 1 ? "use a buffer " : "use an input of a derived buffer ";
        buffer_view const v    = look_at(r, at);
        if (v.why) throw_failure(v.why, what);
        if (v.here) {
            wanted.pop_back();
            continue;
        }
        if (!v.made_by) {
            errc const over = refusal_of(r, at);  // its batch may have dropped it a moment ago
            throw_failure({over == errc{} ? errc::evicted : over}, what);
        }
        std::size_t const before = wanted.size();
        for (derivation::input const& i : v.made_by->inputs)
            if (!look_at(r, i.buffer).here) wanted.push_back(i.buffer);
        if (wanted.size() == before) run_derivation(r, at, *v.made_by);
    }
}

/// Notes that a caller has the buffer's address. Returns false if it lost its bytes, or is gone. Safe whatever
/// becomes of the batch, because blocks are taken away under the object's lock.
TENURE_COLD inline bool note_mapped(raw_handle h) noexcept {
    read_section const here;
    if (!is_alive(h)) return false;
    extent const         x = extent_of(h);
    object_lock const    guard(x);
    buffer_record* const b = is_alive(h, true) ? as_buffer(x) : nullptr;
    if (!b || b->evicted()) return false;
    b->set_mapped(true);
    return true;
}

/// Has `write` write an evicted buffer anew as a whole, so its old contents need not come back.
TENURE_COLD inline void write_anew(raw_handle h, std::size_t alignment,
                                   function_ref<result<void>(place_in_block const&)> write) {
    registry_core& r = static_cast<buffer_record const*>(h.pointer)->from->registry;
    renew_buffer(r, h, alignment, [&](supply& s, block into) {
        if (auto const done = write({s.store, into}); !done) throw_store_error(done.error(), "write to", s.store);
    });
}

}  // namespace tenure::detail

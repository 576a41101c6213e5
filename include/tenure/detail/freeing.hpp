// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include <tenure/detail/giving.hpp>

namespace tenure::detail {

/// From here on the object's own state is asked at every access.
inline void guard_extent(extent const& x) noexcept {
    if (x.large) {
        std::atomic<word_t>* const words = &table_word(x.large->address);
        for (std::size_t i = 0; i < x.large->length; ++i)
            words[i].store(words[i].load(std::memory_order_relaxed) & ~whole_flag, std::memory_order_release);
        return;
    }
    for_units(x, [](place p, std::uintptr_t, std::uintptr_t) {
        std::scoped_lock const guard(p.u->lock);
        begin_tracking(p);
        guard_word(p);
    });
}

inline void bury_extent(batch_record& owner, extent const& x, std::uintptr_t from) noexcept {
    registry_core& r = *owner.registry.load(std::memory_order_relaxed);
    for_units({from, x.begin + x.bytes - from, nullptr, nullptr},
              [&](place p, std::uintptr_t begin, std::uintptr_t end) {
                  word_t fresh   = 0;
                  bool   retired = false;
                  {
                      std::scoped_lock const guard(p.u->lock);
                      begin_tracking(p);
                      retired = bury(p, find_share(p.u, &owner), begin, end, fresh);
                  }
                  if (retired) give_part(r, p.u, 1, fresh);
              });
}

/// An entry whose object another thread gave away stays in the list of the lane that made it until that batch ends:
/// its bytes must not be filled again before. False: the batch has ended.
inline bool leave_to_home(entry const* e) noexcept {
    bool home = false;
    for_units({to_address(e), sizeof(entry), nullptr, nullptr},
              [&](place p, std::uintptr_t begin, std::uintptr_t end) {
                  std::scoped_lock const guard(p.u->lock);
                  if (!p.head()->home.load(std::memory_order_relaxed)) return;
                  home = true;
                  for (share* s = p.u->shares.load(std::memory_order_relaxed); s; s = s->next_here)
                      if (test(s->objects, begin)) clear(*s, begin, end);
              });
    return home;
}

/// Ends the object and gives its bytes back to its owner; any thread, the owner is held. False: somebody else was
/// first. The object's destructor runs here, with no lock held.
inline bool free_object(batch_record& owner, raw_handle h) noexcept {
    extent const   x    = extent_of(h);
    std::uintptr_t from = x.begin;  // what can be filled again at once
    note_peak(owner);
    if (entry* const e = x.header) {
        lane* const l = lane_of(x, &owner);
        guard_extent(x);
        std::uintptr_t state = e->state.exchange(entry::dead, std::memory_order_acq_rel);
        if (state == entry::dead) return false;
        bool remote = false;
        if (state & entry::moved) {
            auto* const p = reinterpret_cast<proxy*>(state & ~entry::flags);
            state         = p->state.load(std::memory_order_relaxed);
            {
                std::scoped_lock const guard(owner.lock);
                unlink(owner.inbox, p);
            }
            delete p;
            if (leave_to_home(e)) from += sizeof(entry);
        } else if (state & entry::inbox) {
            std::scoped_lock const guard(owner.lock);
            unlink(owner.inbox, e);
        } else if (is_mine(l)) {
            unlink(l->entries, e);
        } else {
            remote = true;
            from += sizeof(entry) + sizeof(entry*);
        }
        finalizer_of(state).destroy(e);
        if (remote) {
            owner.books.add(&ledger::freed, 1, x.bytes, owner.is_here());
            refund_use(owner, x.bytes);
            if (!x.large) bury_extent(owner, x, from);
            run_given_back(to_pointer(from), x.begin + x.bytes - from);
            auto** const link = reinterpret_cast<entry**>(e + 1);
            entry*       head = l->remote.load(std::memory_order_relaxed);
            do *link = head;
            while (!l->remote.compare_exchange_weak(head, e, std::memory_order_release, std::memory_order_relaxed));
            return true;
        }
    }
    if (x.large) {
        word_t word = table_word(x.large->address).load(std::memory_order_relaxed);
        if (!x.header && (!(word & whole_flag) ||
                          !table_word(x.large->address).compare_exchange_strong(word, word & ~whole_flag)))
            return false;
        unlink_large(owner, x.large);
        give_large(*owner.registry.load(std::memory_order_relaxed), x.large);
    } else {
        run_given_back(to_pointer(from), x.begin + x.bytes - from);
        bury_extent(owner, x, from);
    }
    owner.books.add(&ledger::freed, 1, x.bytes, owner.is_here());
    refund_use(owner, x.bytes);
    return true;
}

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <tenure/batch.hpp>
#include <tenure/detail/base/config.hpp>
#include <tenure/type_name.hpp>

namespace tenure::detail {

struct entry;

/// What an object is, and what ends it: one constant for each type.
struct alignas(16) finalizer {
    void (*destroy)(entry*) noexcept;           ///< null: the object has no entry
    type_identity const* type       = nullptr;  ///< null: a buffer; of what was adopted, a pointer
    bool                 restorable = false;    ///< its bytes alone bring it back: checkpoints
    release_phase        phase      = release_phase::in_order;
    bool                 is_array   = false;
    std::uint8_t         align_log  = 3;  ///< the alignment's logarithm
    std::uint32_t        size       = 0;  ///< in bytes, of an element; 0: it is no object

    /// Ends it without the deleter or the call that it was registered for; null: it was made.
    void (*drop)(entry*) noexcept = nullptr;

    constexpr std::size_t alignment() const noexcept { return std::size_t{1} << align_log; }
};
static_assert(sizeof(finalizer) == 32);

/// Stands right before every object that has something to do at its end, and links it into the list of a lane of
/// the batch that owns it, newest first. Only the lane's thread touches that list. `state` changes under the
/// object's lock:
///   finalizer           alive, in the list of a lane (lane_of tells which)
///   finalizer | inbox   alive, in the owner's `inbox`, or in the list of buffers or of a phase: these have a lock
///   proxy | moved       alive; another thread transferred it, so its owner's inbox has a proxy for it, whose own
///                       state is the object's finalizer | inbox | proxied
///   dead                its end was run, or runs
///   dead | entry        dead, and in the `remote` list of the lane in whose list it stands, before that entry
struct entry {
    static constexpr std::uintptr_t moved = 1, dead = 2, inbox = 4, proxied = 8, flags = 15;

    entry*                      next;
    entry*                      prev;
    std::atomic<std::uintptr_t> state;

    /// Returns whether the entry is dead. Also reads memory that was an entry a moment ago; the caller then checks
    /// again.
    TENURE_OPTIMISTIC bool looks_dead() const noexcept {
        static_assert(sizeof state == sizeof dead);
        return __atomic_load_n(reinterpret_cast<std::uintptr_t const*>(&state), __ATOMIC_ACQUIRE) & dead;
    }
};

struct array_entry : entry {
    std::size_t count;
};

/// Returns how many bytes stand before an object, but for padding.
inline std::size_t before_object(finalizer const& f) noexcept {
    if (!f.destroy) return 0;
    return f.is_array ? sizeof(array_entry) : sizeof(entry);
}

struct lane;

struct proxy : entry {
    entry* object;
    lane*  listed;  ///< the lane in whose list the object's own entry still is; null when that list is gone
};

inline proxy* proxy_of(std::uintptr_t state) noexcept { return reinterpret_cast<proxy*>(state & ~entry::flags); }

inline finalizer const& finalizer_of(std::uintptr_t state) noexcept {
    return *reinterpret_cast<finalizer const*>(state & ~entry::flags);
}

inline void link_front(entry*& list, entry* e) noexcept {
    e->prev = nullptr;
    e->next = list;
    if (list) list->prev = e;
    list = e;
}

inline void unlink(entry*& list, entry* e) noexcept {
    // The first one's `prev` is not to be trusted: the end of a root calls destructors, which may free others
    // there, after it has taken each from the front of the list.
    entry* const before = list == e ? nullptr : e->prev;
    if (e->next) e->next->prev = before;
    (before ? before->next : list) = e->next;
}

/// As these, of a list that knows its oldest entry, too, so that another list can go before it as a whole. `oldest`
/// means nothing while the list is empty.
[[gnu::always_inline]] inline void link_front(entry*& list, entry*& oldest, entry* e) noexcept {
    e->prev = nullptr;
    e->next = list;
    if (list) list->prev = e;
    else oldest = e;
    list = e;
}

inline void unlink(entry*& list, entry*& oldest, entry* e) noexcept {
    if (!e->next) oldest = e->prev;
    unlink(list, e);
}

}  // namespace tenure::detail

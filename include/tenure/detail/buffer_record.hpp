// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <new>

#include <tenure/detail/liveness.hpp>
#include <tenure/store/concept.hpp>

namespace tenure::detail {

struct recipe;

/// What a buffer is to its batch: an object in the slab, behind an entry like all that has something to do at its
/// end, that names a block of a store. It is kept, transferred and freed as objects are.
struct buffer_record {
    supply* from;
    block   where;
    bool    lent;  ///< the store's own, kept there by name: the end of the batch is not the end of the block
    bool    in_transit = false;  ///< its store does not know yet whose it is now
    bool    evicted    = false;  ///< there is no block; then it is `lent`, too, for there is nothing to end

    std::uint32_t readers = 0;  ///< recipes that are just at it, under the object's lock: it stays where it is
    recipe*       made_by = nullptr;  ///< how its contents can be had again

    /// What comes before an eviction is over is not seen after it; the other way round is the user's to see to.
    bool is_here() const noexcept { return !__atomic_load_n(&evicted, __ATOMIC_ACQUIRE); }
};

/// Its buffer is gone.
void drop_recipe(recipe& r) noexcept;

/// Tells the entries of buffers from others, and is never called: the end of a batch gathers their blocks, to free
/// them in one call per store.
inline constexpr finalizer buffer_finalizer{[](entry*) noexcept {}};

inline bool is_buffer(finalizer const& f) noexcept { return &f == &buffer_finalizer; }

inline buffer_record& buffer_behind(entry* e) noexcept {
    return *std::launder(reinterpret_cast<buffer_record*>(e + 1));
}

/// The buffer that this object is, or null. Under the object's lock, or while nobody else can be at it.
inline buffer_record* as_buffer(extent const& x) noexcept {
    if (!x.header) return nullptr;
    std::uintptr_t state = x.header->state.load(std::memory_order_acquire);
    if (state & entry::moved) state = proxy_of(state)->state.load(std::memory_order_relaxed);
    if (state & entry::dead || !is_buffer(finalizer_of(state))) return nullptr;
    return &buffer_behind(x.header);
}

}  // namespace tenure::detail

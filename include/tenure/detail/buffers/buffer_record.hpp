// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>

#include <tenure/detail/batch/batch_record.hpp>
#include <tenure/detail/batch/liveness.hpp>
#include <tenure/store/concept.hpp>

namespace tenure::detail {

struct derivation;

/// What a buffer is to its batch: an object in the slab, behind an entry like all that has something to do at its
/// end, that names a block of a store. It is kept, transferred and freed as objects are. There may be millions of
/// them, of 56 bytes with the entry; so what most do not need shares a word. That changes under the object's lock.
class buffer_record {
public:
    supply* from = nullptr;
    block   where{};

    buffer_record() noexcept = default;
    buffer_record(supply& s, block b, bool lent) noexcept : from(&s), where(b) { set_lent(lent); }

    /// It is the store's own, kept there by name: the end of the batch is not the end of the block.
    bool lent() const noexcept { return rest_ & lent_bit; }
    void set_lent(bool yes) noexcept { set(lent_bit, yes); }

    /// Its store does not know yet whose it is now.
    bool in_transit() const noexcept { return rest_ & transit_bit; }
    void set_in_transit(bool yes) noexcept { set(transit_bit, yes); }

    /// There is no block; then it is lent, too, for there is nothing to end.
    bool evicted() const noexcept { return rest_ & evicted_bit; }
    void set_evicted(bool yes) noexcept { put(yes ? (rest_ | evicted_bit) & ~mapped_bit : rest_ & ~evicted_bit); }
    /// What comes before an eviction is over is not seen after it; the other way round is the user's to see to.
    /// Needs no lock.
    bool is_here() const noexcept { return !(__atomic_load_n(&rest_, __ATOMIC_ACQUIRE) & evicted_bit); }

    /// Somebody has its address, which is good as long as the block is. Needs no lock to be asked.
    bool mapped() const noexcept { return __atomic_load_n(&rest_, __ATOMIC_RELAXED) & mapped_bit; }
    void set_mapped(bool yes) noexcept { set(mapped_bit, yes); }

    /// How its contents can be had again, or null.
    derivation* made_by() const noexcept { return reinterpret_cast<derivation*>(rest_ & derivation_bits); }
    void        set_made_by(derivation& r) noexcept {
        put((rest_ & ~derivation_bits) | reinterpret_cast<std::uintptr_t>(&r));
    }

    /// Derivations that are just at it: it stays where it is.
    unsigned readers() const noexcept { return static_cast<unsigned>(rest_ / one_reader); }
    void     add_readers(int n) noexcept { put(rest_ + static_cast<std::uint64_t>(std::int64_t{n}) * one_reader); }

private:
    static constexpr std::uint64_t lent_bit = 1, transit_bit = 2, evicted_bit = 4, mapped_bit = 8;
    static constexpr std::uint64_t derivation_bits = cursor_address & ~std::uint64_t{15},
                                   one_reader      = cursor_address + 1;

    void set(std::uint64_t bit, bool yes) noexcept { put(yes ? rest_ | bit : rest_ & ~bit); }
    void put(std::uint64_t rest) noexcept { __atomic_store_n(&rest_, rest, __ATOMIC_RELEASE); }

    std::uint64_t rest_ = 0;  ///< 16 bits of readers, 44 of the derivation's address, flags
};

/// Its buffer is gone; or has come, or lost its bytes.
void drop_derivation(derivation& r) noexcept;
void count_uses(derivation& r, bool here) noexcept;

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
    std::uintptr_t const state = x.header->state.load(std::memory_order_acquire);
    if (state & (entry::dead | entry::moved) || !is_buffer(finalizer_of(state))) return nullptr;
    return &buffer_behind(x.header);
}

/// Which of its owner's lists with a lock an entry is in. Buffers have one of their own: they end after all that
/// has a destructor, for that may use them, and any thread can go through them.
inline entry*& list_for(batch_record& owner, std::uintptr_t state) noexcept {
    return is_buffer(finalizer_of(state)) ? owner.first_buffer : owner.inbox;
}

inline void put_in_list(batch_record& owner, entry* e, std::uintptr_t state) noexcept {
    std::scoped_lock const guard(owner.lock);
    e->state.store(state | entry::inbox, std::memory_order_release);
    link_front(list_for(owner, state), e);
}

inline void remove_from_list(batch_record& owner, entry* e, std::uintptr_t state) noexcept {
    std::scoped_lock const guard(owner.lock);
    if (owner.next_buffer == e) owner.next_buffer = e->next;
    unlink(list_for(owner, state), e);
}

}  // namespace tenure::detail

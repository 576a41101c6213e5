// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <new>

#include <tenure/detail/batch/entry_lists.hpp>
#include <tenure/detail/objects/liveness.hpp>
#include <tenure/store/concept.hpp>

namespace tenure::detail {

/// What computes a buffer's contents again, as the buffer knows it: derivation.hpp.
struct alignas(16) derivation_front {
    derivation_front() noexcept                          = default;
    derivation_front(derivation_front const&)            = delete;
    derivation_front& operator=(derivation_front const&) = delete;

    /// Drops the buffer's reference, because the buffer is gone.
    virtual void drop() noexcept = 0;
    /// Counts the buffer as a user of its inputs, or no more, now that it has got or lost its bytes. Called under
    /// its lock.
    virtual void count_use(bool here) noexcept = 0;

protected:
    ~derivation_front() = default;
};

/// A buffer as its batch has it: an object in the slab, behind an entry, that names a block of a store. It is
/// kept, transferred and freed as objects are. There may be millions of them, of 56 bytes with the entry, so
/// fields that most do not need share a word, which changes under the object's lock.
class buffer_record {
public:
    supply* from = nullptr;
    block   where{};

    buffer_record() noexcept = default;
    buffer_record(supply& s, block b, bool lent) noexcept : from(&s), where(b) { set_lent(lent); }

    /// Returns whether the block is the store's own, kept there by name: the end of the batch does not free it.
    bool lent() const noexcept { return rest_ & lent_bit; }
    void set_lent(bool yes) noexcept { set(lent_bit, yes); }

    /// Returns whether the store does not know yet which batch owns the buffer now.
    bool in_transit() const noexcept { return rest_ & transit_bit; }
    void set_in_transit(bool yes) noexcept { set(transit_bit, yes); }

    /// Returns whether there is no block. The buffer is then lent, too, because there is nothing to free.
    bool evicted() const noexcept { return rest_ & evicted_bit; }
    void set_evicted(bool yes) noexcept { put(yes ? (rest_ | evicted_bit) & ~mapped_bit : rest_ & ~evicted_bit); }
    /// Returns whether the buffer has its bytes. Needs no lock. A thread that sees an eviction over sees the new
    /// block, too (acquire; put() releases). The user makes sure that nothing evicts the buffer during a use.
    bool is_here() const noexcept { return !(__atomic_load_n(&rest_, __ATOMIC_ACQUIRE) & evicted_bit); }

    /// Returns whether a caller has the block's address, which is good as long as the block is. Needs no lock.
    bool mapped() const noexcept { return __atomic_load_n(&rest_, __ATOMIC_RELAXED) & mapped_bit; }
    void set_mapped(bool yes) noexcept { set(mapped_bit, yes); }

    /// Returns the derivation that computes its contents again, or null.
    derivation_front* made_by() const noexcept {
        return reinterpret_cast<derivation_front*>(rest_ & derivation_bits);
    }
    void set_made_by(derivation_front& r) noexcept {
        put((rest_ & ~derivation_bits) | reinterpret_cast<std::uintptr_t>(&r));
    }

    /// Returns how many derivations and block_holds are using the block, which stays where it is meanwhile.
    unsigned readers() const noexcept { return static_cast<unsigned>(rest_ / one_reader); }
    void     add_readers(int n) noexcept { put(rest_ + static_cast<std::uint64_t>(std::int64_t{n}) * one_reader); }

private:
    static constexpr std::uint64_t lent_bit = 1, transit_bit = 2, evicted_bit = 4, mapped_bit = 8;
    static constexpr std::uint64_t one_reader      = std::uint64_t{1} << 48,
                                   derivation_bits = (one_reader - 1) & ~std::uint64_t{15};

    void set(std::uint64_t bit, bool yes) noexcept { put(yes ? rest_ | bit : rest_ & ~bit); }
    void put(std::uint64_t rest) noexcept { __atomic_store_n(&rest_, rest, __ATOMIC_RELEASE); }

    std::uint64_t rest_ = 0;  ///< 16 bits of readers, 44 of the derivation's address, flags
};

/// Marks the entries of buffers. Never called: the end of a batch gathers the blocks, to free them in one call to
/// each store.
inline constexpr finalizer buffer_finalizer{[](entry*) noexcept {}};

inline buffer_record& buffer_behind(entry* e) noexcept {
    return *std::launder(reinterpret_cast<buffer_record*>(e + 1));
}

/// Returns the buffer that this object is, or null. Called under the object's lock, or while no other thread can
/// reach the object.
inline buffer_record* as_buffer(extent const& x) noexcept {
    return is_buffer(x.header) ? &buffer_behind(x.header) : nullptr;
}

}  // namespace tenure::detail

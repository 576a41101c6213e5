// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>

#include <tenure/detail/base/owned_ptr.hpp>
#include <tenure/detail/batch/process.hpp>
#include <tenure/store/concept.hpp>

namespace tenure::detail {

struct derivation_front;

/// Buffers that went one way, and their bytes.
struct flow {
    std::size_t buffers = 0, bytes = 0;

    void operator+=(std::size_t more) noexcept {
        ++buffers;
        bytes += more;
    }
};

/// A buffer at one moment.
struct buffer_seen {
    supply*     from = nullptr;  ///< null: it is none
    block       where{};
    std::size_t owned      = 0;      ///< bytes of the block, unless the store keeps that by name
    bool        in_transit = false;  ///< its store does not know its owner yet: it goes nowhere else
    bool        dropped    = false;  ///< it lost its bytes, because its batch was cancelled or its time was up
};

/// The buffers in one transfer of objects between two batches. Its end tells their stores: no lock is held, and
/// no lane claimed. Both batches are held.
struct buffer_transfer_front {
    buffer_transfer_front() noexcept                               = default;
    buffer_transfer_front(buffer_transfer_front const&)            = delete;
    buffer_transfer_front& operator=(buffer_transfer_front const&) = delete;
    virtual ~buffer_transfer_front()                               = default;

    /// Under the object's lock, as move() is.
    virtual buffer_seen look(entry* e) const noexcept = 0;

    /// Reserves what moving a buffer of that store will need. Returns false if memory is full.
    virtual bool promise(supply& from) noexcept = 0;

    /// Moves a buffer, which was promised, from the books of one batch to those of the other. Returns false, with
    /// nothing done, if it lost its bytes or changed its store since. `seen`: as it is now.
    virtual bool move(entry* e, buffer_seen& seen) noexcept = 0;

    /// Moves a buffer, which was promised, of a batch that is claimed. Its store is not told: the ends of both
    /// batches name their blocks there.
    virtual void move_untold(entry* e) noexcept = 0;

    /// Notes a moved buffer whose store is to be told. Under no lock.
    virtual void add(raw_handle h, buffer_seen const& moved) noexcept = 0;

    bool lost = false;  ///< move() found a buffer without its bytes
};

/// Takes blocks away from batches that are over while threads are inside, and frees them at its end, when none of
/// these batches is held any more.
struct buffer_drop_front {
    buffer_drop_front() noexcept                           = default;
    buffer_drop_front(buffer_drop_front const&)            = delete;
    buffer_drop_front& operator=(buffer_drop_front const&) = delete;
    virtual ~buffer_drop_front()                           = default;

    /// The batch is held, and nothing is made in it any more. One thread at a time.
    virtual void drop(batch_record& b) noexcept = 0;
};

/// Objects whose bytes are in stores, as far as others know them: see buffers/. They end after all other objects
/// of their batch, in one call to each store.
struct buffers_front {
    constexpr buffers_front() noexcept             = default;
    buffers_front(buffers_front const&)            = delete;
    buffers_front& operator=(buffers_front const&) = delete;

    /// What the end of one buffer frees. take() is called under its lock, and free() once that is released.
    struct taken {
        supply*           from = nullptr;  ///< null: no block
        block             where{};
        derivation_front* made_by = nullptr;
    };
    virtual taken take(entry* e) const noexcept                            = 0;
    virtual void  free(batch_record& owner, taken const& t) const noexcept = 0;

    /// Notes the block of a buffer whose batch ends. No other thread is at the batch.
    virtual void gather(batch_record& b, entry* e) const noexcept = 0;
    /// Frees what was gathered, in one call to each store, and forgets the batch's stores.
    virtual void free_gathered(batch_record& b) const noexcept = 0;
    /// Frees what was gathered of a batch that goes on. Its end tries again what a store cannot free.
    virtual void free_gathered_so_far(batch_record& b) const noexcept = 0;

    virtual flow stored_in(batch_record& b) const noexcept = 0;

    /// Both return null if memory is full.
    virtual owned_ptr<buffer_transfer_front> begin_transfer(batch_record& from,
                                                            batch_record& to) const noexcept = 0;
    virtual owned_ptr<buffer_drop_front>     begin_drop() const noexcept                     = 0;

protected:
    ~buffers_front() = default;
};

/// Null until the process makes its first buffer.
TENURE_SHARED inline constinit std::atomic<buffers_front const*> known_buffers{nullptr};

/// The caller has seen a buffer, or a batch with `stores`, which need not be held.
inline buffers_front const& front_of_buffers() noexcept { return *known_buffers.load(std::memory_order_acquire); }

/// Returns what a batch has in all stores.
inline flow stored_in(batch_record& b) noexcept {
    return b.stores.load(std::memory_order_acquire) ? front_of_buffers().stored_in(b) : flow{};
}

/// Frees the blocks gathered at a batch's end.
inline void free_gathered(batch_record& b) noexcept {
    if (b.stores.load(std::memory_order_relaxed)) front_of_buffers().free_gathered(b);
}

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <tenure/detail/base/function_ref.hpp>
#include <tenure/detail/base/owned_ptr.hpp>
#include <tenure/detail/batch/failure.hpp>
#include <tenure/detail/batch/process.hpp>

namespace tenure::detail {

/// What several batches share lives in a hidden batch of its own, a common. It has no guard and only the root
/// above it. Its record counts its members, the batches that have a share in it, and it ends with the last of
/// them, as any batch does. A member lists the commons it is in, so that its end can leave them.
///
/// The count carries the low bits of the generation, as the state does, so that a thread that knows a common by
/// its id alone can neither join nor leave the next batch in the same record. A batch that is no common says so in
/// the bit below the generation: a count that an earlier common left in the record would match again after 2^30
/// batches.

inline constexpr std::uint64_t members_mask = 0xffff'ffff;

inline bool is_common(batch_record const& b) noexcept {
    std::uint64_t const state = b.state.load(std::memory_order_relaxed);
    return (b.members.load(std::memory_order_relaxed) ^ state) >> no_common_bit == 0;
}

/// Returns the number of batches that share `b`, or 0 if `b` is no common, or is over.
inline std::size_t members_of(batch_record const& b) noexcept {
    return is_common(b) ? b.members.load(std::memory_order_relaxed) & members_mask : 0;
}

/// One keep() of shared objects: the parent joins their commons, and then the batch leaves them. Taken back at its
/// end, unless it was committed.
struct share_transfer_front {
    share_transfer_front() noexcept                              = default;
    share_transfer_front(share_transfer_front const&)            = delete;
    share_transfer_front& operator=(share_transfer_front const&) = delete;
    virtual ~share_transfer_front()                              = default;

    /// Makes the parent join the common `id`, which has the object, if the batch is a member; does nothing if a
    /// batch above is. Errors: not_owner if none is, stale_handle if the common is over, memory_full.
    virtual failure prepare(std::uint64_t id, raw_handle h) noexcept = 0;

    /// Gives up the shares of the batch. Calls log(h) for each object in which the parent had no share before.
    virtual void commit(function_ref<void(raw_handle)> log) noexcept = 0;
};

/// Objects that several batches share, as far as others know them: see sharing/.
struct sharing_front {
    constexpr sharing_front() noexcept             = default;
    sharing_front(sharing_front const&)            = delete;
    sharing_front& operator=(sharing_front const&) = delete;

    /// Begins one keep() from a batch to its parent; null if memory is full.
    virtual owned_ptr<share_transfer_front> begin(batch_record& from, batch_record& to) const noexcept = 0;

    /// Gives up the batch's share in the common. Returns false if it had none.
    virtual bool leave(batch_record& b, std::uint64_t common) const noexcept = 0;

    /// Leaves all commons at the end of a batch, the one joined last first.
    virtual void leave_all(batch_record& b) const noexcept = 0;

    /// Calls f(common) for each in which the batch has a share.
    virtual void for_commons(batch_record const& b, function_ref<void(std::uint64_t)> f) const noexcept = 0;

    /// Ends a common whose object was freed or transferred, and in which nothing is left.
    virtual void end_if_empty(std::uint64_t common) const noexcept = 0;

protected:
    ~sharing_front() = default;
};

/// Null until the process shares its first object.
TENURE_SHARED inline constinit std::atomic<sharing_front const*> known_sharing{nullptr};

/// The caller has seen a common, of whichever registry.
inline sharing_front const& front_of_sharing() noexcept { return *known_sharing.load(std::memory_order_acquire); }

}  // namespace tenure::detail

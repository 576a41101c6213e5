// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>

#include <tenure/detail/base/clocks.hpp>
#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/owned_ptr.hpp>
#include <tenure/detail/base/word.hpp>
#include <tenure/error.hpp>

namespace tenure::detail {

struct batch_record;
struct place;
struct registry_core;

/// A batch's node in the pairing heap of deadlines.
struct deadline_node {
    std::uint64_t  due    = 0;
    batch_record*  batch  = nullptr;
    deadline_node* child  = nullptr;
    deadline_node* next   = nullptr;  ///< the next sibling
    deadline_node* before = nullptr;  ///< the previous sibling, or the parent of the first; null: the top
    bool           armed  = false;

    std::atomic<std::uint64_t> deadline{0};  ///< the batch's own, 0: none; `due` is later while an end is put off
};

inline std::uint64_t steady_now() noexcept {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                      std::chrono::nanoseconds(1));
}

/// Deadlines of a registry's batches, and what becomes of batches that expire or are cancelled, as far as others
/// know it: see timing/.
struct timing_front {
    timing_front() noexcept                      = default;
    timing_front(timing_front const&)            = delete;
    timing_front& operator=(timing_front const&) = delete;
    virtual ~timing_front()                      = default;

    /// Sets a deadline, instead of another if there is one. Throws what the registry's deadline_watch throws; then
    /// the deadline is as it was.
    virtual void arm(deadline_node& n, std::uint64_t due) = 0;
    /// Takes a deadline away, if there is one.
    virtual void disarm(deadline_node& n) noexcept = 0;

    /// Stops a batch, and what is below it, for `cause`. False: it was over, or is the root.
    virtual bool stop(batch_record& b, std::uint64_t id, errc cause) noexcept = 0;

    /// Notes why a batch goes before its end, so that its handles can say so: for all that is its own, and in a
    /// unit in which it has a share. Called under the unit's lock, or while the unit is not tracked.
    virtual void log(batch_record& b, errc cause) noexcept                        = 0;
    virtual void note(place const& p, batch_record const& b, errc cause) noexcept = 0;

    /// Forgets the watch, in a forked child, where it has no thread. Makes then look at the clock themselves.
    virtual void lose_watch() noexcept        = 0;
    virtual void lock_for_fork() noexcept     = 0;
    virtual void unlock_after_fork() noexcept = 0;

    std::uint64_t (*now)() noexcept = &steady_now;
    std::atomic<bool> watched{false};  ///< there is a watch: makes need not look at the clock
    std::atomic<bool> used{false};     ///< there was a deadline, or something was cancelled
};

/// Whether there was a deadline in any registry.
TENURE_SHARED inline constinit std::atomic<bool> timing_used_anywhere{false};

/// Batches and objects that went before their end, for errors that say why.
struct expiry_front {
    virtual errc of_batch(std::uint64_t id) noexcept = 0;
    virtual errc of_object(raw_handle h) noexcept    = 0;

protected:
    ~expiry_front() = default;
};

/// The log of this process; null before anything expired or was cancelled.
TENURE_SHARED inline constinit std::atomic<expiry_front*> expiry_logged{nullptr};

/// A std::stop_source that was made for a batch.
struct stop_front {
    virtual ~stop_front()                = default;
    virtual void request_stop() noexcept = 0;
};

/// Returns the timing of a new registry. A weak symbol, which is there if a source of the program includes
/// <tenure/timing.hpp>. Throws std::bad_alloc.
[[gnu::weak]] TENURE_OWN owned_ptr<timing_front> new_timing(registry_core& r);

}  // namespace tenure::detail

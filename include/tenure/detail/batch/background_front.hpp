// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/owned_ptr.hpp>

namespace tenure {
struct background_info;
}

namespace tenure::detail {

struct batch_record;
struct registry_core;

/// A registry's thread, for destructors of batches with reclamation::background and for what registry_options::warm
/// asks, as far as others know it: see background/.
struct background_front {
    background_front() noexcept                          = default;
    background_front(background_front const&)            = delete;
    background_front& operator=(background_front const&) = delete;
    virtual ~background_front()                          = default;

    /// Starts the thread if there is none. Called when a batch is opened, for an end must not allocate.
    virtual void start() noexcept = 0;

    /// Leaves a batch that is over, and that nothing holds, to the thread. Called by the guard's thread, if there
    /// is a guard. Returns false, with nothing done, if there are no destructors to run, there is no thread, or too
    /// much waits already. `parent`: held by the batch, and the caller must release it; or null.
    virtual bool put_off(batch_record& b, batch_record*& parent) noexcept = 0;

    /// Has the thread make memory ready, as registry::warm(bytes), while no batch waits; what the system refuses is
    /// left cold. Does nothing if the system has no thread to give.
    virtual void warm(std::size_t bytes) noexcept = 0;

    /// Waits until no batch waits, and what warm() asked for is done.
    virtual void drain() noexcept = 0;

    /// Takes no more batches, and waits for those that wait; gives up what warm() asked for. Called at exit, when
    /// other threads may go on.
    virtual void retire() noexcept = 0;

    /// Retires, and ends the thread.
    virtual void close() noexcept = 0;

    virtual background_info describe() const noexcept = 0;

    virtual void lock_for_fork() noexcept     = 0;
    virtual void unlock_after_fork() noexcept = 0;

    /// Forgets the thread, in a forked child. `own`: what the caller is freeing, or null. Returns the batch that
    /// the thread was freeing, or null.
    virtual batch_record* lose_thread(batch_record const* own) noexcept = 0;
};

/// Returns that of a new registry; `limit` bytes may wait. A weak symbol, which is there if a source of the program
/// includes <tenure/background.hpp>. Throws std::bad_alloc.
[[gnu::weak]] TENURE_OWN owned_ptr<background_front> new_background(registry_core& r, std::size_t limit);

}  // namespace tenure::detail

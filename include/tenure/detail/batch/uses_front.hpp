// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <vector>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/owned_ptr.hpp>
#include <tenure/detail/base/word.hpp>

namespace tenure {
struct batch_id;
struct batch_report;
}  // namespace tenure

namespace tenure::detail {

struct batch_record;
struct registry_core;
struct used_object;

/// Which batch of a registry uses what of another, as far as others know it: see uses/. A batch of which something
/// is used has the flag `used`, and one hold for all uses.
struct uses_front {
    uses_front() noexcept                    = default;
    uses_front(uses_front const&)            = delete;
    uses_front& operator=(uses_front const&) = delete;
    virtual ~uses_front()                    = default;

    /// Whether any object is used. Needs no lock.
    virtual bool any() const noexcept = 0;

    /// The lock is taken before those of units and batches. leave() unlocks, too, and releases the holds of batches
    /// that are no longer used, which may end them: no other lock is held.
    virtual void lock() noexcept   = 0;
    virtual void unlock() noexcept = 0;
    virtual void leave() noexcept  = 0;

    /// Returns the object at an address if it is used, else null. Under the lock, as give() is.
    virtual used_object* find(std::uintptr_t address) const noexcept = 0;

    /// Makes `to` the owner of a used object, for whose users it waits then. Both batches are held.
    virtual void give(used_object& o, batch_record& to) noexcept = 0;

    /// Notes that a batch that has ended is kept by uses alone, if it is. `seen` is its state a moment ago. Does
    /// nothing if the record is another batch's by now.
    virtual void wait_for_users(batch_record& b, std::uint64_t seen) noexcept = 0;

    /// Returns whether a batch below `b` is over and waits for its users.
    virtual bool has_waiting_children(batch_record const& b) noexcept = 0;

    /// Releases what the batch has pinned and borrowed, which empties guards of its pins. Called at its end, once
    /// nothing of it could refer to those objects, or earlier. Does nothing while the batch waits for its users,
    /// who may need what it uses. For any thread that keeps the batch from being reused.
    virtual void release_pins(batch_record& b) noexcept = 0;

    /// Returns whether a batch other than `but` uses the object now. `h` names the object in the slab.
    virtual bool is_pinned(raw_handle h, batch_record const* but) noexcept = 0;

    /// Releases the batch's own pins and borrows of the object.
    virtual void unpin(batch_record& b, raw_handle h) noexcept = 0;

    /// Reports which guards of pins will be empty after the end. Costs a look at each pin until the report is full.
    virtual void report_pins(batch_record const& b, batch_report& r) noexcept = 0;

    /// Adds the users of what an ended batch owns, without those that wait with it in a ring. Throws
    /// std::bad_alloc.
    virtual void add_users(batch_record& b, std::uint64_t id, std::vector<batch_id>& out) = 0;

    /// Forgets the uses by a batch whose registry closes, and then, after all batches, the objects.
    virtual void forget(batch_record& b) noexcept = 0;
    virtual void forget_objects() noexcept        = 0;
};

/// Returns those of a new registry. A weak symbol, which is there if a source of the program includes
/// <tenure/pin.hpp>. Throws std::bad_alloc.
[[gnu::weak]] TENURE_OWN owned_ptr<uses_front> new_uses(registry_core& r);

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <new>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/fork_list.hpp>
#include <tenure/detail/base/owned_ptr.hpp>
#include <tenure/detail/buffers/buffer_transfer.hpp>
#include <tenure/detail/buffers/derivation_runs.hpp>
#include <tenure/detail/buffers/dropping.hpp>

namespace tenure::detail {

/// What the core calls, in a registry that has buffers.
class buffering final : public buffers_front {
public:
    taken take(entry* e) const noexcept override {
        buffer_record const& b = buffer_behind(e);
        return {b.lent() ? nullptr : b.from, b.lent() ? block{} : b.where, b.made_by()};
    }
    void free(batch_record& owner, taken const& t) const noexcept override {
        if (t.from) free_stored(owner, *t.from, t.where);
        if (t.made_by) t.made_by->drop();
    }

    void gather(batch_record& b, entry* e) const noexcept override {
        taken const t = take(e);
        if (t.from) find_stored(b, *t.from)->to_free->add(t.where);
        if (t.made_by) t.made_by->drop();
    }
    void free_gathered(batch_record& b) const noexcept override { free_in_stores(b); }
    void free_gathered_so_far(batch_record& b) const noexcept override { detail::free_gathered_so_far(b); }

    flow stored_in(batch_record& b) const noexcept override { return sum_of_stores(b); }

    owned_ptr<buffer_transfer_front> begin_transfer(batch_record& from, batch_record& to) const noexcept override {
        return owned_ptr<buffer_transfer_front>(new (std::nothrow) buffer_transfer(from, to));
    }
    owned_ptr<buffer_drop_front> begin_drop() const noexcept override {
        return owned_ptr<buffer_drop_front>(new (std::nothrow) dropped_blocks);
    }

    /// Keeps the locks of buffers through fork(), once it is in the list. In a child, the runs of threads that it
    /// lacks end, and buffers that these left in transit go where they belong: their batches stay held, so it does
    /// not matter what the stores have heard.
    TENURE_SHARED inline static constinit fork_node at_fork{
        .lock   = [](void*) noexcept { running_derivations.mutex.lock(); },
        .unlock = [](void*) noexcept { running_derivations.mutex.unlock(); },
        .mend =
            [](void*) noexcept {
                running_derivations.forget_others();
                if (!store_notify::left_some()) return;
                for_records([](batch_record& b) {
                    bool const over = b.state.load(std::memory_order_relaxed) & batch_flags::done;
                    if (b.id.load(std::memory_order_relaxed) && !over) store_notify::forget_transits(b);
                });
            }};
};
inline constexpr buffering buffering_here{};

/// Makes the process ready for buffers. Called before the first is made, with no lock held.
inline void begin_buffers() noexcept {
    if (known_buffers.load(std::memory_order_acquire)) return;
    add_for_ever(buffering::at_fork);
    known_buffers.store(&buffering_here, std::memory_order_release);
}

}  // namespace tenure::detail

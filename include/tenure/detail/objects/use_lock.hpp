// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/batch/holding.hpp>
#include <tenure/detail/batch/uses_front.hpp>
#include <tenure/detail/objects/tracking.hpp>

namespace tenure::detail {

/// Locks an object of `owner`, which is held, and the graph if anything of `owner` is used. So whether the object
/// is pinned does not change until one of these ends. Costs a load if nothing is used.
class use_lock {
public:
    use_lock(batch_record const& owner, extent const& x) noexcept : object_(x) {
        if (owner.state.load(std::memory_order_acquire) & batch_flags::used) [[unlikely]]
            find_out(owner, x);
    }
    use_lock(use_lock const&)            = delete;
    use_lock& operator=(use_lock const&) = delete;

    bool pinned() const noexcept { return pinned_; }

    /// Makes `to` the owner of a pinned object in the graph, where `to` then waits for its users. Both batches are
    /// held.
    void give_to(batch_record& to) noexcept {
        if (pinned_) [[unlikely]]
            graph_.of->give(*pinned_, to);
    }

private:
    struct graph_lock {
        uses_front* of = nullptr;
        ~graph_lock() {
            if (of) [[unlikely]]
                leave();
        }
        TENURE_COLD void leave() noexcept { of->leave(); }
    };

    /// Locks the graph, whose lock comes before the object's: releases that and takes it again.
    TENURE_COLD void find_out(batch_record const& owner, extent const& x) noexcept {
        graph_.of = owner.registry.load(std::memory_order_relaxed)->uses.get();
        object_.unlock();
        graph_.of->lock();
        object_.lock();
        pinned_ = graph_.of->find(x.begin);
    }

    graph_lock   graph_;  ///< released after the object's
    object_lock  object_;
    used_object* pinned_ = nullptr;
};

/// Returns whether a batch uses the object now, which `h` names in the slab.
inline bool is_pinned(registry_core& r, raw_handle h) noexcept { return r.uses && r.uses->is_pinned(h, nullptr); }

}  // namespace tenure::detail

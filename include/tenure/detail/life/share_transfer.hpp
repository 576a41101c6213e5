// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <new>
#include <vector>

#include <tenure/detail/shared/commons.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Transfers shares of `from` to its parent, `to`, for keep() of objects that several batches share. Works in two
/// steps, as ownership_transfer does: `to` joins first, and that can be taken back until commit().
class share_transfer {
public:
    share_transfer(batch_record& from, batch_record& to) noexcept : from_(from), to_(to) {}
    ~share_transfer() {
        for (note const& n : notes_)
            if (n.joined) leave_common(to_, n.common);
    }
    share_transfer(share_transfer const&)            = delete;
    share_transfer& operator=(share_transfer const&) = delete;

    /// Makes `to` join the common `id`, if `from` is a member; does nothing if a batch above `from` is. Errors:
    /// not_owner if neither is, stale_handle if the common is over, memory_full.
    failure prepare(std::uint64_t id, raw_handle h) noexcept {
        if (!is_member(from_, id)) {
            batch_record* up = &to_;
            while (up && !is_member(*up, id)) up = up->parent.load(std::memory_order_relaxed);
            return up ? failure{} : failure{errc::not_owner, &from_};
        }
        failure const full{errc::memory_full, &to_, sizeof(note)};
        if (!memory_lasts([&] { notes_.push_back({id, h, false}); })) return full;
        joining const how = join_common(to_, *record_of(id), id);
        if (how == joining::over) return {errc::stale_handle, &from_};
        if (how == joining::memory_full) return full;
        notes_.back().joined = how == joining::joined;
        return {};
    }

    /// Gives up the shares of `from`. Calls log(h) for each object in which the parent had no share before.
    template <class F>
    void commit(F log) noexcept {
        for (note const& n : notes_) {
            leave_common(from_, n.common);
            if (n.joined) log(n.handle);
        }
        notes_.clear();
    }

private:
    struct note {
        std::uint64_t common;
        raw_handle    handle;
        bool          joined;
    };

    batch_record&     from_;
    batch_record&     to_;
    std::vector<note> notes_;
};

}  // namespace tenure::detail

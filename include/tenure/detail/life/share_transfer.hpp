// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <new>
#include <vector>

#include <tenure/detail/shared/commons.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// keep() of what several batches share: the share of `from` goes to its parent, `to`. In two steps, as giving():
/// `to` joins first, and until commit() that can be taken back.
class share_transfer {
public:
    share_transfer(batch_record& from, batch_record& to) noexcept : from_(from), to_(to) {}
    ~share_transfer() {
        for (note const& n : notes_)
            if (n.joined) leave_common(to_, n.common);
    }
    share_transfer(share_transfer const&)            = delete;
    share_transfer& operator=(share_transfer const&) = delete;

    /// not_owner: neither `from` nor one above it has a share.
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

    /// Calls log(h) for each that was not the parent's before.
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

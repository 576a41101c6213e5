// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <new>
#include <vector>

#include <tenure/detail/base/owned_ptr.hpp>
#include <tenure/detail/sharing/commons.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Transfers shares of `from` to its parent, `to`, for keep() of objects that several batches share. Works in two
/// steps, as ownership_transfer does: `to` joins first, and that can be taken back until commit().
class share_transfer final : public share_transfer_front {
public:
    share_transfer(batch_record& from, batch_record& to) noexcept : from_(from), to_(to) {}
    ~share_transfer() override {
        for (note const& n : notes_)
            if (n.joined) leave_common(to_, n.common);
    }

    failure prepare(std::uint64_t id, raw_handle h) noexcept override {
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

    void commit(function_ref<void(raw_handle)> log) noexcept override {
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

/// What the core calls.
class shares final : public sharing_front {
public:
    owned_ptr<share_transfer_front> begin(batch_record& from, batch_record& to) const noexcept override {
        return owned_ptr<share_transfer_front>(new (std::nothrow) share_transfer(from, to));
    }
    bool leave(batch_record& b, std::uint64_t common) const noexcept override { return leave_common(b, common); }
    void leave_all(batch_record& b) const noexcept override { leave_commons(b); }
    void for_commons(batch_record const& b, function_ref<void(std::uint64_t)> f) const noexcept override {
        b.memberships->for_each(f);
    }
    void end_if_empty(std::uint64_t common) const noexcept override {
        if (usage_of(*record_of(common)).objects == 0) drop_member(common, true);
    }
};
inline constexpr shares shares_here{};

}  // namespace tenure::detail

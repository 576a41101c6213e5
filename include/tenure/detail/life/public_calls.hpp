// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>

#include <tenure/batch.hpp>
#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/function_ref.hpp>
#include <tenure/detail/base/word.hpp>
#include <tenure/detail/batch/lane.hpp>
#include <tenure/detail/objects/throwing.hpp>

namespace tenure::detail {

struct registry_core;

/// What the templates of batch_scope, lane, registry and the free functions call. A lane stands for its batch.

/// Takes handles one after another, into room that flush() empties or replaces.
class handle_sink {
public:
    handle_sink(handle_sink const&)            = delete;
    handle_sink& operator=(handle_sink const&) = delete;

    /// Returns false if no more are wanted.
    bool add(raw_handle h) noexcept {
        *next_++ = h;
        return next_ != end_ || flush();
    }

protected:
    handle_sink(raw_handle* first, raw_handle* end) noexcept : next_(first), end_(end) {}
    ~handle_sink() = default;

    /// Makes room. Returns false if no more handles are wanted.
    virtual bool flush() noexcept = 0;

    raw_handle* next_;
    raw_handle* end_;
};

/// Hands each handle to a sink, until that wants no more. Called once.
using all_handles = function_ref<void(handle_sink&)>;

/// Hands each handle, or each id, to a function, until that returns false; every time it is called the same ones.
using each_handle = function_ref<void(function_ref<bool(raw_handle)>)>;
using each_id     = function_ref<void(function_ref<bool(std::uint64_t)>)>;

/// Does keep() of one object in the usual case. False: nothing was done, and keep_all() knows more.
TENURE_DECL bool keep_at_once(lane& from, raw_handle h) noexcept;

/// One keep(): objects of `from`, a batch of this thread, go to its parent, all or none.
TENURE_DECL failure keep_all(lane& from, all_handles handles);

/// As keep_all(), of these few.
inline failure keep_each(lane& from, std::same_as<raw_handle> auto... handles) {
    return keep_all(from, [&](handle_sink& to) { static_cast<void>((to.add(handles) && ...)); });
}

/// To any batch of the registry, from any thread.
TENURE_DECL failure transfer_object(registry_core& r, raw_handle h, std::uint64_t to);

/// As transfer_object(), in the registry of the batch that is current.
TENURE_DECL failure transfer_from(lane const& current, raw_handle h, std::uint64_t to);

/// Whoever owns it, from any thread.
TENURE_DECL failure free_object_of(registry_core& r, raw_handle h);

/// Only if that batch owns it; if it has a share in it, just that.
TENURE_DECL failure free_in(lane const& owner, raw_handle h);

/// As these two, but the deleter of an adopted object, or a deferred call, does not run. A share is not given up.
TENURE_DECL failure drop_object_of(registry_core& r, raw_handle h);
TENURE_DECL failure drop_in(lane const& owner, raw_handle h);

/// Frees all, or none if one of them is stale or pinned.
TENURE_DECL failure free_all(registry_core& r, each_handle handles);

/// A range of batch ids that can be traversed more than once.
template <class R>
concept id_range = requires(R const& r) {
    { *std::begin(r) } -> std::convertible_to<batch_id>;
    std::end(r);
};

/// As sharing_calls::broadcast() takes them.
template <id_range Ids>
auto ids_in(Ids const& ids) noexcept {
    return [&ids](function_ref<bool(std::uint64_t)> f) {
        for (batch_id const id : ids)
            if (!f(id.value)) return;
    };
}

/// What <tenure/checkpoints.hpp> defines.
struct checkpoint_calls;
template <class Feature>
constexpr void require_checkpoints() noexcept {
    static_assert(
        requires { sizeof(Feature); }, "checkpoint(), rollback() and commit(): include <tenure/checkpoints.hpp>");
}

/// What <tenure/whole_batch.hpp> defines.
struct whole_batch_calls;
template <class Feature>
constexpr void require_whole_batch() noexcept {
    static_assert(
        requires { sizeof(Feature); },
        "clear(), keep_all(), these with _but, and transfer_all(): include <tenure/whole_batch.hpp>");
}

/// What <tenure/change_batch.hpp> defines.
struct change_batch_calls;
template <class Feature>
constexpr void require_changes() noexcept {
    static_assert(
        requires { sizeof(Feature); },
        "set_name(), set_priority(), set_limits(), set_timeout() and progress(): include "
        "<tenure/change_batch.hpp>");
}

/// What <tenure/keep_copy.hpp> defines.
struct copy_calls;
template <class Feature>
constexpr void require_copies() noexcept {
    static_assert(requires { sizeof(Feature); }, "keep_copy() and try_keep_copy(): include <tenure/keep_copy.hpp>");
}

/// What <tenure/unique_owner.hpp> defines.
struct detach_calls;
template <class Feature, class H>
constexpr void require_detaching() noexcept {
    static_assert(requires { sizeof(Feature); }, "detach(h) and try_detach(h): include <tenure/unique_owner.hpp>");
    static_assert(
        requires(H const& h) { h.unchecked(); },
        "detach(h) is for objects: give a buffer a batch_owner of its own, by transfer_ownership(b, owner)");
}

/// What <tenure/inspect.hpp> defines.
struct inspection;
template <class Feature>
constexpr void require_inspection() noexcept {
    static_assert(
        requires { sizeof(Feature); }, "snapshot(), usage() and waits_for(): include <tenure/inspect.hpp>");
}

/// What <tenure/objects.hpp> defines.
struct object_calls;
template <class Feature>
constexpr void require_listing() noexcept {
    static_assert(
        requires { sizeof(Feature); },
        "for_each_object(), record_objects() and name_object(): include <tenure/objects.hpp>");
}

/// What <tenure/paging.hpp> defines.
struct paging_calls;
template <class Feature>
constexpr void require_paging() noexcept {
    static_assert(requires { sizeof(Feature); }, "page_out() and page_in(): include <tenure/paging.hpp>");
}

/// What <tenure/pin.hpp> defines.
struct pin_calls;
template <class Feature>
constexpr void require_pins() noexcept {
    static_assert(requires { sizeof(Feature); }, "borrow(): include <tenure/pin.hpp>");
}

/// What <tenure/sharing.hpp> defines.
struct sharing_calls;
template <class Feature>
constexpr void require_sharing() noexcept {
    static_assert(
        requires { sizeof(Feature); }, "share(), broadcast() and unshare(): include <tenure/sharing.hpp>");
}

/// What <tenure/timing.hpp> defines.
struct timing_calls;
template <class Feature>
constexpr void require_timing() noexcept {
    static_assert(
        requires { sizeof(Feature); }, "cancel(), stop_token() and expire_overdue(): include <tenure/timing.hpp>");
}

/// What <tenure/warm.hpp> defines.
struct warm_calls;
template <class Feature>
constexpr void require_warmth() noexcept {
    static_assert(requires { sizeof(Feature); }, "warm() and try_warm(): include <tenure/warm.hpp>");
}

}  // namespace tenure::detail

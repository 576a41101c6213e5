// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <type_traits>
#include <utility>

#include <tenure/batch.hpp>
#include <tenure/batch_scope.hpp>
#include <tenure/current.hpp>
#include <tenure/detail/life/visit.hpp>
#include <tenure/raise.hpp>

// Opt-in: keep_copy() of batch_scope, and keep_to(). <tenure/tenure.hpp> has it.

namespace tenure {

namespace detail {

struct copy_calls {
    template <class T>
    static handle<T> copy_up(lane const& from, handle<T> const& h) {
        place         to;
        failure const why = begin_up(from, handle_access::raw(h), to);
        return copy_or_throw(why, to, h);
    }
    template <class T>
    static result<handle<T>> try_copy_up(lane const& from, handle<T> const& h) {
        place         to;
        failure const why = begin_up(from, handle_access::raw(h), to);
        return try_copy(why, to, h);
    }
    template <class T>
    static handle<T> copy_to(std::uint64_t id, handle<T> const& h) {
        place         to;
        failure const why = begin_to(id, handle_access::raw(h), to);
        return copy_or_throw(why, to, h);
    }
    template <class T>
    static result<handle<T>> try_copy_to(std::uint64_t id, handle<T> const& h) {
        place         to;
        failure const why = begin_to(id, handle_access::raw(h), to);
        return try_copy(why, to, h);
    }

private:
    /// Where a copy goes.
    struct place {
        std::uint64_t id = 0;
        lane* own = nullptr;  ///< of the batch, if its guard is this thread's; its resource() serves the copy
    };

    /// Asks whether a live object may be copied from a batch to its parent. Errors: stale_handle, not_owner for the
    /// root, why_closed() of either batch.
    TENURE_DECL static failure begin_up(lane const& from, raw_handle h, place& to) noexcept;

    /// Asks whether it may be copied to a batch of any registry. Errors: stale_handle, no_such_batch,
    /// over_failure().
    TENURE_DECL static failure begin_to(std::uint64_t id, raw_handle h, place& to) noexcept;

    template <class T, class Refusal>
    static handle<T> copy(place const& to, handle<T> const& h, Refusal refusal) {
        using E = std::remove_cv_t<std::remove_extent_t<T>>;
        static_assert(std::is_copy_constructible_v<E>,
                      "keep_copy and keep_to need a copy constructor: keep() the object");
        static_assert(
            std::is_array_v<T> || !std::is_polymorphic_v<E> || std::is_final_v<E>,
            "keep_copy and keep_to copy a T, and so would slice an object of a class derived from it: make "
            "T final, or keep() the object");
        if constexpr (std::is_trivially_copyable_v<E>)
            if (to.own) return copy_in(*to.own, h, refusal);
        visit const in(to.id);  // where a copy constructor makes objects
        return copy_in(current_lane(), h, refusal);
    }

    template <class T, class Refusal>
    static handle<T> copy_in(lane& l, handle<T> const& h, Refusal refusal) {
        if constexpr (std::is_array_v<T>)
            return make_elements_or<T>(l, refusal, h.size(), copies_of<std::remove_extent_t<T>>{h.unchecked()});
        else return make_or<T>(l, refusal, std::as_const(*h.unchecked()));
    }

    template <class T>
    static handle<T> copy_or_throw(failure const& refused, place const& to, handle<T> const& h) {
        if (!h.alive()) throw_stale(handle_access::raw(h));
        if (refused) throw_failure(refused, "keep a copy in batch ");
        return copy(to, h, throw_it{});
    }
    template <class T>
    static result<handle<T>> try_copy(failure why, place const& to, handle<T> const& h) {
        handle<T> made;
        if (!why && !memory_lasts([&] { made = copy(to, h, report_to{why}); })) why = {errc::memory_full};
        if (why) return make_error_code(why.code);
        return made;
    }
};

}  // namespace detail

/// As batch_scope::keep_copy, from the current batch.
template <class T>
handle<T> keep_copy(handle<T> h) {
    return detail::copy_calls::copy_up(detail::current_lane(), h);
}
template <class T>
result<handle<T>> try_keep_copy(handle<T> h) {
    return detail::copy_calls::try_copy_up(detail::current_lane(), h);
}

/// Copies an object, as batch_scope::keep_copy does, into a batch of any registry. Any thread. Throws stale_handle,
/// no_such_batch, and as make() in that batch; what the copy constructor throws. Cost: that of entering the batch,
/// none if its guard is this thread's, and of make().
template <class T>
handle<T> keep_to(batch_id to, handle<T> h) {
    return detail::copy_calls::copy_to(to.value, h);
}
template <class T>
result<handle<T>> try_keep_to(batch_id to, handle<T> h) {
    return detail::copy_calls::try_copy_to(to.value, h);
}

}  // namespace tenure

#ifndef TENURE_SEPARATE
#include <tenure/impl/keep_copy.ipp>
#endif

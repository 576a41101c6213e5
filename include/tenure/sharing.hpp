// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <algorithm>
#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>
#include <vector>

#include <tenure/batch_scope.hpp>
#include <tenure/buffer.hpp>
#include <tenure/current.hpp>
#include <tenure/detail/life/public_calls.hpp>
#include <tenure/handle.hpp>

namespace tenure {

/// Sharing gives one object several owners: docs/sharing.md.

/// A buffer that can only be read, for receivers of what others have, too. Made by frozen(). In all else as
/// buffer<T>.
template <class T>
class frozen_buffer : public detail::buffer_elements<frozen_buffer<T>, T const> {
public:
    frozen_buffer() noexcept = default;                        ///< null: stale from the start
    frozen_buffer(buffer<T> const& b) noexcept : whole_(b) {}  // NOLINT(google-explicit-constructor): it gives less

    std::size_t size() const noexcept { return whole_.size(); }
    explicit    operator bool() const noexcept { return static_cast<bool>(whole_); }

    friend bool operator==(frozen_buffer const&, frozen_buffer const&) noexcept  = default;
    friend auto operator<=>(frozen_buffer const&, frozen_buffer const&) noexcept = default;

private:
    friend detail::handle_access;
    friend std::hash<frozen_buffer>;

    detail::raw_handle     raw() const noexcept { return detail::handle_access::raw(whole_); }
    detail::untyped_buffer view() const noexcept { return detail::handle_access::view(whole_); }

    buffer<T> whole_;
};

namespace detail {

template <class T>
inline constexpr bool is_buffer_handle<frozen_buffer<T>> = true;

/// `here`: who works in a batch. Where that is over, nothing is shared.
struct sharing_calls {
    /// Makes the batch an owner, too.
    TENURE_DECL static failure share(registry_core& r, raw_handle h, std::uint64_t with);
    TENURE_DECL static failure share(lane const& here, raw_handle h, std::uint64_t with);

    /// Makes all these batches owners of an object; on failure, none that was not one before.
    TENURE_DECL static failure broadcast(registry_core& r, raw_handle h, each_id with);
    TENURE_DECL static failure broadcast(lane const& here, raw_handle h, each_id with);

    /// Makes the batch let it go.
    TENURE_DECL static failure unshare(registry_core& r, raw_handle h, std::uint64_t with);
};

}  // namespace detail

/// Returns the same object for reading only.
template <class T>
handle<T const> frozen(handle<T> const& h) noexcept {
    return h;
}
template <class T>
handle<T const[]> frozen(handle<T[]> const& h) noexcept {
    return h;
}
/// Returns the same buffer for reading only.
template <class T>
frozen_buffer<T> frozen(buffer<T> const& b) noexcept {
    return b;
}
template <class T>
frozen_buffer<T> frozen(frozen_buffer<T> const& b) noexcept {
    return b;
}

/// Copies an object into this thread's current batch, which alone owns the copy. Throws stale_handle, as make(),
/// and what T's copy constructor throws.
template <class T>
handle<std::remove_const_t<T>> copy(handle<T> const& h) {
    return make<std::remove_const_t<T>>(*h);
}
template <class T>
handle<std::remove_const_t<T>[]> copy(handle<T[]> const& h) {
    auto const from = h.span();
    auto const made = make<std::remove_const_t<T>[]>(from.size());
    std::copy(from.begin(), from.end(), made.span().begin());
    return made;
}
/// Copies a buffer, as copy(handle), in the same store, which copies by itself if it can. Throws also what the
/// store reports.
template <class T>
buffer<T> copy(frozen_buffer<T> const& b) {
    auto const made = make_buffer<T>(b.size(), b.stores().front());
    b.copy_to(made);
    return made;
}
template <class T>
buffer<T> copy(buffer<T> const& b) {
    return copy(frozen(b));
}

/// As registry::share, in the registry of this thread's current batch.
template <detail::owned H>
H share(H h, batch_id with) {
    auto const why =
        detail::sharing_calls::share(detail::current_lane(), detail::handle_access::raw(h), with.value);
    if (why) detail::throw_failure(why, "share ");
    return h;
}
/// As share(), but returns the error.
template <detail::owned H>
result<H> try_share(H h, batch_id with) {
    auto const why =
        detail::sharing_calls::share(detail::current_lane(), detail::handle_access::raw(h), with.value);
    if (why) return make_error_code(why.code);
    return h;
}
/// As registry::broadcast, in the registry of this thread's current batch.
template <detail::owned H, detail::id_range R>
H broadcast(H h, R const& with) {
    auto const why = detail::sharing_calls::broadcast(detail::current_lane(), detail::handle_access::raw(h),
                                                      detail::ids_in(with));
    if (why) detail::throw_failure(why, "broadcast ");
    return h;
}

}  // namespace tenure

template <class T>
struct std::hash<tenure::frozen_buffer<T>> {
    std::size_t operator()(tenure::frozen_buffer<T> const& b) const noexcept {
        return std::hash<tenure::buffer<T>>{}(b.whole_);
    }
};

#ifndef TENURE_SEPARATE
#include <tenure/impl/sharing.ipp>
#endif

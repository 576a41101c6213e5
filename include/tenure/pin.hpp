// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <utility>

#include <tenure/buffer.hpp>
#include <tenure/current.hpp>
#include <tenure/detail/life/public_calls.hpp>
#include <tenure/detail/uses/pin_guard.hpp>
#include <tenure/handle.hpp>

namespace tenure {

namespace detail {

struct pin_access;

/// The batch uses the object until it ends, whoever owns that.
struct pin_calls {
    TENURE_DECL static failure borrow(lane const& user, raw_handle h, std::source_location where) noexcept;
    TENURE_DECL static failure borrow(registry_core& r, std::uint64_t user, raw_handle h,
                                      std::source_location where) noexcept;
};

}  // namespace detail

/// Holds a pin: while it lives, the object is neither freed nor moved nor paged out, whatever happens to its
/// batch.
///
/// The pin belongs to the batch that was current when it was taken, and ends with it at the latest. From then on
/// the guard is empty, and access throws stale_handle. Movable; one thread at a time may use it. release() and
/// destruction cost tens of ns, unless the end of another batch waited for them: then that end takes place here.
template <class T>
class [[nodiscard]] pinned {
public:
    using element_type = T;

    pinned() noexcept = default;  ///< empty

    /// Returns the object. Throws stale_handle. Cost: two loads and two compares.
    T& operator*() const { return *operator->(); }
    T* operator->() const {
        if (!guard_.holds()) [[unlikely]]
            detail::throw_stale({object_, 1});
        return object_;
    }

    T*       get() const noexcept { return guard_.holds() ? object_ : nullptr; }
    explicit operator bool() const noexcept { return guard_.holds(); }

    /// Releases the pin now, before the guard goes. Idempotent.
    void release() noexcept { guard_.release(); }

private:
    friend detail::pin_access;
    pinned(handle<T> h, detail::pin_guard&& guard) noexcept : object_(h.unchecked()), guard_(std::move(guard)) {}

    T*                object_ = nullptr;
    detail::pin_guard guard_;
};

/// As pinned<T>, for an array.
template <class T>
class [[nodiscard]] pinned<T[]> {
public:
    using element_type = T;

    pinned() noexcept = default;

    /// Returns element `i`. Throws stale_handle, out_of_range.
    T& operator[](std::size_t i) const {
        std::span<T> const all = span();
        if (i >= all.size()) [[unlikely]]
            detail::throw_out_of_range(i, all.size());
        return all[i];
    }

    /// Returns all elements. Throws stale_handle.
    std::span<T> span() const {
        if (!guard_.holds()) [[unlikely]]
            detail::throw_stale({first_, 1});
        return {first_, size_};
    }

    std::size_t size() const noexcept { return size_; }
    T*          get() const noexcept { return guard_.holds() ? first_ : nullptr; }
    explicit    operator bool() const noexcept { return guard_.holds(); }
    void        release() noexcept { guard_.release(); }

private:
    friend detail::pin_access;
    pinned(handle<T[]> h, detail::pin_guard&& guard) noexcept
        : first_(h.unchecked()), size_(h.size()), guard_(std::move(guard)) {}

    T*                first_ = nullptr;
    std::size_t       size_  = 0;
    detail::pin_guard guard_;
};

/// As pinned<T>, for a buffer, which stays in its store and at its address there.
template <class T>
class [[nodiscard]] pinned<buffer<T>> {
public:
    using element_type = T;

    pinned() noexcept = default;

    /// Returns the buffer. Throws stale_handle.
    buffer<T> const& operator*() const { return *operator->(); }
    buffer<T> const* operator->() const {
        if (!guard_.holds()) [[unlikely]]
            detail::throw_stale(detail::handle_access::raw(buffer_));
        return &buffer_;
    }

    explicit operator bool() const noexcept { return guard_.holds(); }
    void     release() noexcept { guard_.release(); }

private:
    friend detail::pin_access;
    pinned(buffer<T> b, detail::pin_guard&& guard) noexcept : buffer_(b), guard_(std::move(guard)) {}

    buffer<T>         buffer_;
    detail::pin_guard guard_;
};

namespace detail {

template <class H>
struct pinned_as {
    using type = pinned<typename H::element_type>;
};
template <class T>
struct pinned_as<handle<T[]>> {
    using type = pinned<T[]>;
};
template <class T>
struct pinned_as<buffer<T>> {
    using type = pinned<buffer<T>>;
};
template <class H>
using pinned_t = typename pinned_as<H>::type;

struct pin_access {
    template <class H>
    static pinned_t<H> make(H h, failure& why, std::source_location where) {
        pin_guard guard(current_lane(), handle_access::raw(h), where, why);
        if (why) return {};
        return {h, std::move(guard)};
    }
};

}  // namespace detail

/// Pins an object or a buffer for this thread's current batch, which may be the batch that owns it. An object can
/// be pinned as long as it lives, even if its batch is `ending`. Throws stale_handle, batch_ended (the current
/// batch is over, or the object's is just being freed), batch_in_use (destructors or stores are at a checkpoint of
/// the object's batch), not_owner (another registry's), memory_full. Thread-safe. Cost: tens of ns, for a lock
/// that all pins of the registry share and a look into a hash table.
template <detail::owned H>
detail::pinned_t<H> pin(H h, std::source_location where = std::source_location::current()) {
    detail::failure     why;
    detail::pinned_t<H> p = detail::pin_access::make(h, why, where);
    if (why) detail::throw_failure(why, "pin for batch ");
    return p;
}
/// As pin(), but returns the error.
template <detail::owned H>
result<detail::pinned_t<H>> try_pin(H h, std::source_location where = std::source_location::current()) {
    detail::failure     why;
    detail::pinned_t<H> p = detail::pin_access::make(h, why, where);
    if (why) return make_error_code(why.code);
    return p;
}

/// As batch_scope::borrow, for this thread's current batch.
template <detail::owned H>
H borrow(H h, std::source_location where = std::source_location::current()) {
    detail::failure const why =
        detail::pin_calls::borrow(detail::current_lane(), detail::handle_access::raw(h), where);
    if (why) detail::throw_failure(why, "borrow for batch ");
    return h;
}
/// As borrow(), but returns the error.
template <detail::owned H>
result<H> try_borrow(H h, std::source_location where = std::source_location::current()) {
    detail::failure const why =
        detail::pin_calls::borrow(detail::current_lane(), detail::handle_access::raw(h), where);
    if (why) return make_error_code(why.code);
    return h;
}

}  // namespace tenure

#ifndef TENURE_SEPARATE
#include <tenure/impl/pin.ipp>
#endif

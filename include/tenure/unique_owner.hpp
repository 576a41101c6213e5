// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include <tenure/batch.hpp>
#include <tenure/batch_scope.hpp>
#include <tenure/current.hpp>
#include <tenure/handle.hpp>
#include <tenure/result.hpp>

// Opt-in: detach() of objects. <tenure/tenure.hpp> has it.

namespace tenure {

namespace detail {

/// Frees what a unique_owner owned, unless it went to a batch, or `home`, the root of its registry, is gone.
TENURE_DECL void free_detached(raw_handle h, std::uint64_t home) noexcept;

}  // namespace detail

/// Owns one object outside of all batches that end, as std::unique_ptr does, and frees it when destroyed; on any
/// thread. detach(h) makes one. The object has not moved; handles to it are valid until the owner frees it.
///
/// Until then it lives in the root of its registry: usage(registry.root()) and the snapshot count it there, and a
/// leak report does not name it. The end of the registry frees it if the owner has not, and the owner, then empty,
/// does nothing: so an owner may outlive the registry, but not be destroyed while another thread destroys that. If
/// a pin or a borrow holds the object when the owner goes, it is freed as soon as that lets go; if other batches
/// have shares in it, it stays theirs. Who gives it to a batch by a handle takes it from the owner.
///
/// T may be an array, T[]; for a buffer, use a batch_owner. One thread at a time may use an owner. Access is
/// checked, as through a handle, and costs that. Destruction costs what registry::free() does.
template <class T>
class [[nodiscard]] unique_owner {
    using element = std::remove_extent_t<T>;

public:
    using element_type = element;

    unique_owner() noexcept = default;        ///< owns nothing
    unique_owner(std::nullptr_t) noexcept {}  // NOLINT(google-explicit-constructor): as unique_ptr

    unique_owner(unique_owner&& other) noexcept
        : handle_(std::exchange(other.handle_, {})), home_(std::exchange(other.home_, {})) {}
    template <class U>
        requires std::is_convertible_v<tenure::handle<U>, tenure::handle<T>>
    unique_owner(unique_owner<U>&& other) noexcept  // NOLINT(google-explicit-constructor): as unique_ptr
        : handle_(std::exchange(other.handle_, {})), home_(std::exchange(other.home_, {})) {}
    unique_owner& operator=(unique_owner&& other) noexcept {
        unique_owner{std::move(other)}.swap(*this);
        return *this;
    }
    ~unique_owner() {
        if (handle_) detail::free_detached(detail::handle_access::raw(handle_), home_.value);
    }
    void swap(unique_owner& other) noexcept {
        std::swap(handle_, other.handle_);
        std::swap(home_, other.home_);
    }

    /// Frees the object now, and owns nothing from then on.
    void reset() noexcept { unique_owner{}.swap(*this); }

    /// Gives the object up and returns its handle: for transfer_ownership() to a batch. Else it stays until the end
    /// of its registry.
    [[nodiscard]] tenure::handle<T> release() noexcept {
        home_ = {};
        return std::exchange(handle_, {});
    }

    /// Returns the object. Throws stale_handle if there is none.
    element& operator*() const
        requires(!std::is_array_v<T>)
    {
        return *handle_;
    }
    element* operator->() const
        requires(!std::is_array_v<T>)
    {
        return handle_.operator->();
    }
    /// As of handle<T[]>: throws out_of_range, too.
    element& operator[](std::size_t i) const
        requires std::is_array_v<T>
    {
        return handle_[i];
    }

    element*          get() const noexcept { return handle_.get(); }  ///< null if there is none
    tenure::handle<T> handle() const noexcept { return handle_; }

    /// Returns whether the object is there: false also once its registry, or somebody by a handle, has freed it.
    explicit operator bool() const noexcept { return handle_.alive(); }

    /// Hands the object to a shared_ptr, of T or of a base, whose last copy frees it. Throws std::bad_alloc, and
    /// owns the object still. An owner of nothing gives null.
    template <class U>
        requires std::is_convertible_v<tenure::handle<T>, tenure::handle<U>>
    operator std::shared_ptr<U>() && {  // NOLINT(google-explicit-constructor): as unique_ptr
        if (!*this) return {};
        auto const owner = std::make_shared<unique_owner>(std::move(*this));
        return {owner, owner->get()};
    }

private:
    template <class>
    friend class unique_owner;
    friend detail::detach_calls;

    unique_owner(tenure::handle<T> const& h, std::uint64_t home) noexcept : handle_(h), home_{home} {}

    tenure::handle<T> handle_;
    batch_id          home_;  ///< the root of its registry
};

namespace detail {

struct detach_calls {
    template <class T>
    static unique_owner<T> detach(registry_core& from, handle<T> const& h) {
        return or_throw(h, take_out(from, handle_access::raw(h)));
    }
    template <class T>
    static unique_owner<T> detach(lane const& from, handle<T> const& h) {
        return or_throw(h, take_out(from, handle_access::raw(h)));
    }
    template <class T>
    static result<unique_owner<T>> try_detach(registry_core& from, handle<T> const& h) {
        return or_error(h, take_out(from, handle_access::raw(h)));
    }
    template <class T>
    static result<unique_owner<T>> try_detach(lane const& from, handle<T> const& h) {
        return or_error(h, take_out(from, handle_access::raw(h)));
    }

private:
    struct taken {
        failure       why;
        std::uint64_t home;
    };

    /// Gives an object to the root, whoever owns it.
    TENURE_DECL static taken take_out(registry_core& r, raw_handle h);

    /// As take_out(), if that batch owns it.
    TENURE_DECL static taken take_out(lane const& from, raw_handle h);

    template <class T>
    static unique_owner<T> or_throw(handle<T> const& h, taken const& done) {
        if (done.why) throw_failure(done.why, "detach from batch ");
        return unique_owner<T>(h, done.home);
    }
    template <class T>
    static result<unique_owner<T>> or_error(handle<T> const& h, taken const& done) {
        if (done.why) return make_error_code(done.why.code);
        return unique_owner<T>(h, done.home);
    }
};

}  // namespace detail

/// As batch_scope::detach of an object, from the current batch.
template <class T>
unique_owner<T> detach(handle<T> h) {
    return detail::detach_calls::detach(detail::current_lane(), h);
}
template <class T>
result<unique_owner<T>> try_detach(handle<T> h) {
    return detail::detach_calls::try_detach(detail::current_lane(), h);
}

}  // namespace tenure

#ifndef TENURE_SEPARATE
#include <tenure/impl/unique_owner.ipp>
#endif

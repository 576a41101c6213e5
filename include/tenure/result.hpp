// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <memory>
#include <system_error>
#include <type_traits>
#include <utility>
#include <version>

#ifdef __cpp_lib_expected
#include <expected>
#endif

#include <tenure/error.hpp>
#include <tenure/raise.hpp>

namespace tenure {

#ifdef __cpp_lib_expected
using std::unexpected;
#else
/// Marks an error on its way into a result: `return unexpected(e);`.
template <class E>
class unexpected {
public:
    constexpr explicit unexpected(E e) : error_(std::move(e)) {}

    constexpr E const& error() const& noexcept { return error_; }
    constexpr E&&      error() && noexcept { return std::move(error_); }

private:
    E error_;
};
#endif

template <class T, class E = std::error_code>
class result;

namespace detail {

/// Stands for the value of a result<void>.
struct no_value {
    friend constexpr bool operator==(no_value, no_value) = default;
};

template <class R>
inline constexpr bool is_result = false;
template <class T, class E>
inline constexpr bool is_result<result<T, E>> = true;

/// A From converts to To implicitly, and not as well to Other.
template <class From, class To, class Other>
concept means =
    !is_result<std::remove_cvref_t<From>> && std::is_convertible_v<From, To> && !std::is_convertible_v<From, Other>;

/// From... constructs a To, and not as well an Other.
template <class To, class Other, class... From>
concept makes = sizeof...(From) != 0 && (!is_result<std::remove_cvref_t<From>> && ...) &&
                std::is_constructible_v<To, From...> && !std::is_constructible_v<Other, From...>;

}  // namespace detail

/// Holds a value or an error code: what the `try_` forms return, which never throw an exception of tenure's own.
///
/// A result has the interface of std::expected, and converts to and from std::expected if the library has it. It
/// is a class of its own because it offers more: an error makes a result without `unexpected` (`return
/// errc::stale_handle;`), has_error() exists, error() of a value is E{}, and `*f()` of a temporary is a value.
///
/// value() of an error throws tenure::error. Everything else throws only what T and E throw. As thread-safe as a
/// T.
template <class T, class E>
class result {
    static_assert(std::is_nothrow_move_constructible_v<E>);

    using stored   = std::conditional_t<std::is_void_v<T>, detail::no_value, T>;
    using lvalue   = std::add_lvalue_reference_t<T>;
    using constant = std::add_lvalue_reference_t<T const>;
    using taken    = std::conditional_t<std::is_move_constructible_v<stored>, T, std::add_rvalue_reference_t<T>>;

    static constexpr bool trivial       = std::is_trivially_copyable_v<stored> && std::is_trivially_copyable_v<E>;
    static constexpr bool copied        = !trivial && std::is_copy_constructible_v<stored>;
    static constexpr bool moved         = !trivial && std::is_move_constructible_v<stored>;
    static constexpr bool copy_assigned = copied && std::is_copy_assignable_v<stored>;
    static constexpr bool move_assigned = moved && std::is_move_assignable_v<stored>;
    static constexpr bool safely_moved  = std::is_nothrow_move_constructible_v<stored>;

public:
    using value_type = T;
    using error_type = E;

    constexpr result()
        requires std::is_default_constructible_v<stored>
        : value_() {}

    template <class U = T>
        requires detail::means<U, T, E>
    constexpr result(U&& value) : value_(std::forward<U>(value)) {}
    template <class G = E>
        requires detail::means<G, E, T>
    constexpr result(G&& error) : error_(std::forward<G>(error)), has_(false) {}
    template <class G>
        requires std::is_constructible_v<E, G const&>
    constexpr result(unexpected<G> const& u) : error_(u.error()), has_(false) {}

    template <class... A>
        requires detail::makes<T, E, A...>
    constexpr explicit result(A&&... a) : value_(std::forward<A>(a)...) {}
    template <class... A>
        requires detail::makes<E, T, A...>
    constexpr explicit result(A&&... a) : error_(std::forward<A>(a)...), has_(false) {}

    template <class U, class G>
        requires(std::is_convertible_v<U, T> && std::is_convertible_v<G, E>)
    constexpr result(result<U, G> other) : none_() {
        take(other);
    }

    constexpr result(result const&)
        requires(trivial)
    = default;
    constexpr result(result const& other)
        requires(copied)
        : none_() {
        copy(other);
    }
    constexpr result(result&&)
        requires(trivial)
    = default;
    constexpr result(result&& other) noexcept(safely_moved)
        requires(moved)
        : none_() {
        copy(std::move(other));
    }
    constexpr result& operator=(result const&)
        requires(trivial)
    = default;
    constexpr result& operator=(result const& other)
        requires(copy_assigned)
    {
        assign(other);
        return *this;
    }
    constexpr result& operator=(result&&)
        requires(trivial)
    = default;
    constexpr result& operator=(result&& other) noexcept(safely_moved && std::is_nothrow_move_assignable_v<stored>)
        requires(move_assigned)
    {
        assign(std::move(other));
        return *this;
    }
    constexpr ~result()
        requires(trivial)
    = default;
    constexpr ~result() { clear(); }

    constexpr bool     has_value() const noexcept { return has_; }
    constexpr bool     has_error() const noexcept { return !has_; }
    constexpr explicit operator bool() const noexcept { return has_; }

    /// Returns the error, or E{} if there is a value.
    constexpr E error() const { return has_ ? E{} : error_; }
    /// Returns the error, or `otherwise` if there is a value.
    template <class G>
    constexpr E error_or(G&& otherwise) const {
        return has_ ? static_cast<E>(std::forward<G>(otherwise)) : error_;
    }

    // Returns the value. Undefined if there is none.
    constexpr auto*    operator->() noexcept { return std::addressof(value_); }
    constexpr auto*    operator->() const noexcept { return std::addressof(value_); }
    constexpr lvalue   operator*() & noexcept { return static_cast<lvalue>(value_); }
    constexpr constant operator*() const& noexcept { return static_cast<constant>(value_); }
    constexpr taken    operator*() && { return static_cast<taken>(std::move(value_)); }

    constexpr lvalue   value() & { return *required(*this); }
    constexpr constant value() const& { return *required(*this); }
    constexpr taken    value() && { return *std::move(required(*this)); }

    /// Returns the value, or `otherwise` if there is none.
    template <class U>
    constexpr T value_or(U&& otherwise) const& {
        return has_ ? value_ : static_cast<T>(std::forward<U>(otherwise));
    }
    template <class U>
    constexpr T value_or(U&& otherwise) && {
        return has_ ? std::move(value_) : static_cast<T>(std::forward<U>(otherwise));
    }

    /// Replaces what was there by a new value. If T's constructor throws, the error is as it was, or E{} if there
    /// was a value.
    template <class... A>
    constexpr stored& emplace(A&&... a) {
        if (has_) become_error(E{});
        become_value(std::forward<A>(a)...);
        return value_;
    }

    /// Returns f(value), which is a result, or the error.
    template <class F>
    constexpr auto and_then(F&& f) & {
        return and_then_of(*this, std::forward<F>(f));
    }
    template <class F>
    constexpr auto and_then(F&& f) const& {
        return and_then_of(*this, std::forward<F>(f));
    }
    template <class F>
    constexpr auto and_then(F&& f) && {
        return and_then_of(std::move(*this), std::forward<F>(f));
    }

    /// Returns a result with f(value), or the error.
    template <class F>
    constexpr auto transform(F&& f) & {
        return transform_of(*this, std::forward<F>(f));
    }
    template <class F>
    constexpr auto transform(F&& f) const& {
        return transform_of(*this, std::forward<F>(f));
    }
    template <class F>
    constexpr auto transform(F&& f) && {
        return transform_of(std::move(*this), std::forward<F>(f));
    }

    /// Returns the value, or f(error), which is a result of the same value type.
    template <class F>
    constexpr auto or_else(F&& f) const& {
        return or_else_of(*this, std::forward<F>(f));
    }
    template <class F>
    constexpr auto or_else(F&& f) && {
        return or_else_of(std::move(*this), std::forward<F>(f));
    }

    /// Returns the value, or the error f(error), of any type.
    template <class F>
    constexpr auto transform_error(F&& f) const& {
        using R = result<T, std::remove_cvref_t<decltype(f(error_))>>;
        return or_else_of(*this, [&](E const& e) { return R(unexpected(std::forward<F>(f)(e))); });
    }
    template <class F>
    constexpr auto transform_error(F&& f) && {
        using R = result<T, std::remove_cvref_t<decltype(f(error_))>>;
        return or_else_of(std::move(*this), [&](E const& e) { return R(unexpected(std::forward<F>(f)(e))); });
    }

    friend constexpr bool operator==(result const& a, result const& b) {
        return a.has_ == b.has_ && (a.has_ ? a.value_ == b.value_ : a.error_ == b.error_);
    }

#ifdef __cpp_lib_expected
    constexpr result(std::expected<T, E> other) : none_() { take(other); }
    constexpr operator std::expected<T, E>() const&
        requires std::is_copy_constructible_v<stored>
    {
        return as_expected(*this);
    }
    constexpr operator std::expected<T, E>() &&
        requires std::is_move_constructible_v<stored>
    {
        return as_expected(std::move(*this));
    }
#endif

private:
#ifdef __cpp_lib_expected
    template <class Self>
    static constexpr std::expected<T, E> as_expected(Self&& self) {
        if (!self.has_) return std::unexpected(self.error_);
        if constexpr (std::is_void_v<T>) return {};
        else return std::forward<Self>(self).value_;
    }
#endif

    template <class Self>
    static constexpr Self& required(Self& self) {
        if (!self.has_) [[unlikely]]
            raise(tenure::error(std::error_code(self.error_)));
        return self;
    }

    template <class Self, class F>
    static constexpr decltype(auto) call(Self&& self, F&& f) {
        if constexpr (std::is_void_v<T>) return std::forward<F>(f)();
        else return std::forward<F>(f)(std::forward<Self>(self).value_);
    }
    template <class Self, class F>
    static constexpr auto and_then_of(Self&& self, F&& f) {
        using R = std::remove_cvref_t<decltype(call(std::forward<Self>(self), std::forward<F>(f)))>;
        static_assert(detail::is_result<R>, "what and_then() is given returns a result");
        return self.has_ ? R(call(std::forward<Self>(self), std::forward<F>(f))) : R(unexpected(self.error_));
    }
    template <class Self, class F>
    static constexpr auto transform_of(Self&& self, F&& f) {
        using U = std::remove_cv_t<decltype(call(std::forward<Self>(self), std::forward<F>(f)))>;
        using R = result<U, E>;
        if (!self.has_) return R(unexpected(self.error_));
        if constexpr (std::is_void_v<U>) {
            call(std::forward<Self>(self), std::forward<F>(f));
            return R();
        } else {
            return R(call(std::forward<Self>(self), std::forward<F>(f)));
        }
    }
    template <class Self, class F>
    static constexpr auto or_else_of(Self&& self, F&& f) {
        using R = std::remove_cvref_t<decltype(std::forward<F>(f)(self.error_))>;
        static_assert(std::is_same_v<typename R::value_type, T>, "what or_else() is given returns a result<T>");
        if (!self.has_) return std::forward<F>(f)(self.error_);
        if constexpr (std::is_void_v<T>) return R();
        else return R(std::forward<Self>(self).value_);
    }

    constexpr void clear() noexcept {
        if (has_) std::destroy_at(&value_);
        else std::destroy_at(&error_);
    }
    /// Moves what another class with this interface holds.
    template <class Other>
    constexpr void take(Other& other) {
        has_ = other.has_value();
        if (!has_) std::construct_at(&error_, std::move(other).error());
        else if constexpr (std::is_void_v<T>) std::construct_at(&value_);
        else std::construct_at(&value_, *std::move(other));
    }
    template <class From>
    constexpr void copy(From&& from) {
        has_ = from.has_;
        if (has_) std::construct_at(&value_, std::forward<From>(from).value_);
        else std::construct_at(&error_, std::forward<From>(from).error_);
    }
    template <class From>
    constexpr void assign(From&& from) {
        if (has_ && from.has_) value_ = std::forward<From>(from).value_;
        else if (from.has_) become_value(std::forward<From>(from).value_);
        else become_error(E(std::forward<From>(from).error_));
    }
    constexpr void become_error(E e) noexcept {
        clear();
        std::construct_at(&error_, std::move(e));
        has_ = false;
    }
    /// Replaces an error by a value. If the constructor throws, the error is back.
    template <class... A>
    constexpr void become_value(A&&... a) {
        struct guard {
            result* self;
            E       was;
            constexpr ~guard() {
                if (self) std::construct_at(&self->error_, std::move(was));
            }
        } undo{this, std::move(error_)};
        std::destroy_at(&error_);
        std::construct_at(&value_, std::forward<A>(a)...);
        undo.self = nullptr;
        has_      = true;
    }

    union {
        detail::no_value none_;
        stored           value_;
        E                error_;
    };
    bool has_ = true;
};

}  // namespace tenure

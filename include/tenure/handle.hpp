// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <compare>
#include <cstddef>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <tenure/batch.hpp>
#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/word.hpp>
#include <tenure/detail/objects/checked_access.hpp>
#include <tenure/detail/objects/throwing.hpp>
#include <tenure/error.hpp>

namespace tenure {

template <class T>
class handle;

namespace detail {

class buffer_record;

template <class T>
inline constexpr bool is_handle = false;
template <class T>
inline constexpr bool is_handle<handle<T>> = true;
template <class T>
inline constexpr bool is_buffer_handle = false;

/// A handle of what a batch owns: an object or a buffer.
template <class T>
concept owned = is_handle<T> || is_buffer_handle<T>;

struct handle_access {
    template <class T>
    static handle<T> make(T* p, word_t w) noexcept {
        handle<T> h;
        h.pointer_ = p;
        h.word_    = w;
        return h;
    }
    template <class T>
    static handle<T[]> make(T* p, word_t w, std::size_t n) noexcept {
        handle<T[]> h;
        h.pointer_ = p;
        h.word_    = w;
        h.size_    = n;
        return h;
    }
    template <class T>
    static raw_handle raw(handle<T> const& h) noexcept {
        return {h.pointer_, h.word_};
    }
    template <class B>
        requires is_buffer_handle<B>
    static raw_handle raw(B const& b) noexcept {
        return b.raw();
    }
    template <class B>
    static auto view(B const& b) noexcept {
        return b.view();
    }
    template <class B>
    static B make_buffer(raw_handle h, std::size_t n) noexcept {
        B b;
        b.record_ = static_cast<buffer_record const*>(h.pointer);
        b.word_   = h.word;
        b.size_   = n;
        return b;
    }
};

/// The batch that owns the object. Throws stale_handle.
TENURE_DECL batch_id owner_id(raw_handle h);

}  // namespace detail

/// Refers to one object without owning it: 16 bytes, trivially copyable. T may be incomplete, const or
/// polymorphic. A handle is valid until the object is freed, through any number of keeps and transfers. From then
/// on it is stale for ever, on every thread, however often the memory is used again.
///
/// Any thread may use any copy. A check says that the object was alive at that moment; if one thread frees an
/// object while another uses it, they race, as with any pointer.
template <class T>
class handle {
public:
    using element_type = T;

    handle() noexcept = default;        ///< null: stale from the start
    handle(std::nullptr_t) noexcept {}  // NOLINT(google-explicit-constructor): as a pointer

    template <class U>
        requires(!std::is_array_v<U> && std::is_convertible_v<U*, T*>)
    handle(handle<U> const& other) noexcept
        : pointer_(other.pointer_),
          word_(detail::word_at(detail::to_address(pointer_), detail::to_address(other.pointer_), other.word_)) {}

    /// Returns the object. Throws stale_handle. Cost: one hot load and a compare.
    [[gnu::always_inline]] T& operator*() const { return *operator->(); }
    [[gnu::always_inline]] T* operator->() const {
        if (!alive()) [[unlikely]]
            detail::throw_stale({pointer_, word_}, __PRETTY_FUNCTION__);
        return pointer_;
    }

    T*   get() const noexcept { return alive() ? pointer_ : nullptr; }  ///< null if stale
    bool alive() const noexcept { return detail::is_alive({pointer_, word_}); }

    /// Returns whether the handle was ever given an object, as `h != nullptr` does. alive() says whether that is
    /// still there: a stale handle is not null, so that code which asks only this is told so when it goes on.
    explicit operator bool() const noexcept { return word_ != 0; }

    /// Returns the pointer without a check. It dangles once the object is freed.
    T* unchecked() const noexcept { return pointer_; }

    /// Returns the batch that would free the object. Throws stale_handle.
    batch_id owner() const { return detail::owner_id({pointer_, word_}); }

    /// Handles compare as addresses do, and what was at one address at different times differs, too. The order of
    /// two is of no meaning, but it never changes: for sets and maps.
    friend bool operator==(handle const&, handle const&) noexcept  = default;
    friend auto operator<=>(handle const&, handle const&) noexcept = default;

private:
    template <class>
    friend class handle;
    friend detail::handle_access;
    friend std::hash<handle>;

    T*             pointer_ = nullptr;
    detail::word_t word_    = 0;
};

/// Refers to an array whose length was chosen when it was made, as handle<T> to an object. 24 bytes, because the
/// length travels along.
template <class T>
class handle<T[]> {
public:
    using element_type = T;

    handle() noexcept = default;        ///< null: stale from the start
    handle(std::nullptr_t) noexcept {}  // NOLINT(google-explicit-constructor): as a pointer

    template <class U>
        requires std::is_convertible_v<U (*)[], T (*)[]>
    handle(handle<U[]> const& other) noexcept : pointer_(other.pointer_), word_(other.word_), size_(other.size_) {}

    /// Returns element `i`. Throws stale_handle, out_of_range.
    [[gnu::always_inline]] T& operator[](std::size_t i) const {
        if (!alive()) [[unlikely]]
            detail::throw_stale({pointer_, word_}, __PRETTY_FUNCTION__);
        if (i >= size_) [[unlikely]]
            detail::throw_out_of_range(i, size_);
        return pointer_[i];
    }

    /// Returns all elements. The span is as unchecked as a pointer. Throws stale_handle.
    [[gnu::always_inline]] std::span<T> span() const {
        if (!alive()) [[unlikely]]
            detail::throw_stale({pointer_, word_}, __PRETTY_FUNCTION__);
        return {pointer_, size_};
    }

    /// For range-for, which checks the handle once: begin() throws stale_handle.
    T* begin() const { return span().data(); }
    T* end() const noexcept { return pointer_ + size_; }

    std::size_t size() const noexcept { return size_; }
    bool        empty() const noexcept { return size_ == 0; }
    T*          get() const noexcept { return alive() ? pointer_ : nullptr; }
    bool        alive() const noexcept { return detail::is_alive({pointer_, word_}); }
    explicit    operator bool() const noexcept { return word_ != 0; }
    T*          unchecked() const noexcept { return pointer_; }
    batch_id    owner() const { return detail::owner_id({pointer_, word_}); }

    friend bool operator==(handle const&, handle const&) noexcept  = default;
    friend auto operator<=>(handle const&, handle const&) noexcept = default;

private:
    template <class>
    friend class handle;
    friend detail::handle_access;
    friend std::hash<handle>;

    T*             pointer_ = nullptr;
    detail::word_t word_    = 0;
    std::size_t    size_    = 0;
};

static_assert(sizeof(handle<int>) == 16 && std::is_trivially_copyable_v<handle<int>>);

namespace detail {

/// A range of handles that can be traversed more than once, and is not itself one of an array. (The concepts of
/// <ranges> would cost every user's build more than this one.)
template <class R>
concept handle_range = !owned<std::remove_cvref_t<R>> && requires(R& r) {
    { std::begin(r) } -> std::forward_iterator;
    std::end(r);
} && owned<std::iter_value_t<decltype(std::begin(std::declval<R&>()))>>;

}  // namespace detail

}  // namespace tenure

template <class T>
struct std::hash<tenure::handle<T>> {
    std::size_t operator()(tenure::handle<T> const& h) const noexcept {
        // The word tells apart what was at one address at different times.
        return std::hash<std::uint64_t>{}(reinterpret_cast<std::uintptr_t>(h.pointer_) ^ h.word_ << 7);
    }
};

#ifndef TENURE_SEPARATE
#include <tenure/impl/core.ipp>
#endif

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <tenure/detail/base/word.hpp>
#include <tenure/handle.hpp>

namespace tenure {

/// Base of a class whose member functions need a handle of their object, as std::enable_shared_from_this is for
/// shared pointers:
///
///     struct node : tenure::enable_handle_from_this<node> { ... };
///
/// Derive from it publicly, and once. Costs each object 8 bytes, and its make one store.
template <class T>
class enable_handle_from_this {
protected:
    enable_handle_from_this() noexcept = default;
    enable_handle_from_this(enable_handle_from_this const&) noexcept {}  // a copy is another object
    enable_handle_from_this& operator=(enable_handle_from_this const&) noexcept { return *this; }
    ~enable_handle_from_this() = default;

public:
    /// Returns the handle that make() or adopt() returned. Null in the constructor, and for an object that neither
    /// of them made, as an element of an array.
    handle<T> handle_from_this() noexcept { return handle_of(static_cast<T*>(this)); }

    handle<T const> handle_from_this() const noexcept { return handle_of(static_cast<T const*>(this)); }

private:
    friend void tenure_tell_handle(enable_handle_from_this const& base, void const* object,
                                   detail::word_t word) noexcept {
        base.word_ = detail::word_at(detail::to_address(&base), detail::to_address(object), word);
    }

    template <class U>
    handle<U> handle_of(U* object) const noexcept {
        if (!word_) return nullptr;
        return detail::handle_access::make(
            object, detail::word_at(detail::to_address(object), detail::to_address(this), word_));
    }

    mutable detail::word_t word_ = 0;
};

}  // namespace tenure

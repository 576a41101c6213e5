// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <utility>

namespace tenure::detail {

/// Owns an object that was made by `new`, or none. For the core, which would instantiate a dozen std::unique_ptr:
/// each costs a compiler some milliseconds and two megabytes, in every file that uses tenure.
template <class T>
class owned_ptr {
public:
    owned_ptr() noexcept = default;
    explicit owned_ptr(T* p) noexcept : p_(p) {}
    owned_ptr(owned_ptr&& other) noexcept : p_(other.release()) {}
    template <class Derived>
    owned_ptr(owned_ptr<Derived>&& other) noexcept : p_(other.release()) {}
    owned_ptr& operator=(owned_ptr&& other) noexcept {
        reset(other.release());
        return *this;
    }
    ~owned_ptr() { delete p_; }

    explicit operator bool() const noexcept { return p_ != nullptr; }
    T*       get() const noexcept { return p_; }
    T&       operator*() const noexcept { return *p_; }
    T*       operator->() const noexcept { return p_; }

    T*   release() noexcept { return std::exchange(p_, nullptr); }
    void reset(T* p = nullptr) noexcept { delete std::exchange(p_, p); }

private:
    T* p_ = nullptr;
};

}  // namespace tenure::detail

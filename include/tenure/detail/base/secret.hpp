// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include <string.h>

namespace tenure::detail {

/// Overwrites memory with zeros, even if nobody reads it afterwards: a compiler leaves out a memset() then.
inline void wipe(void* p, std::size_t bytes) noexcept { ::explicit_bzero(p, bytes); }

/// Overwrites what it takes back, whether the container is destroyed, grows, or an exception unwinds it.
template <class T>
struct wiping_allocator {
    using value_type = T;

    wiping_allocator() = default;
    template <class U>
    wiping_allocator(wiping_allocator<U> const&) noexcept {}  // NOLINT(google-explicit-constructor): it is the same

    T*   allocate(std::size_t n) { return std::allocator<T>().allocate(n); }
    void deallocate(T* p, std::size_t n) noexcept {
        wipe(p, n * sizeof(T));
        std::allocator<T>().deallocate(p, n);
    }
    friend bool operator==(wiping_allocator, wiping_allocator) noexcept { return true; }
};

/// Text that nobody finds in memory once it is gone. A std::string would not do: it keeps short texts within
/// itself.
using secret_text = std::vector<char, wiping_allocator<char>>;

inline std::string_view view_of(secret_text const& s) noexcept { return {s.data(), s.size()}; }

}  // namespace tenure::detail

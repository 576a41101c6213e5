// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>

namespace tenure::detail {

/// An atomic for tables in freshly mapped memory, all zeros at first. The constructor of a std::atomic would never
/// run there: running it would touch gigabytes. This type is an aggregate, and so has implicit lifetime: the
/// mapping itself begins it, with the zeros that are there ([intro.object], [class.prop]). Each access goes
/// through a std::atomic_ref, which costs as much as a std::atomic.
template <class T>
struct zeroed_atomic {
    alignas(std::atomic_ref<T>::required_alignment) T value;

    using order = std::memory_order;

    T    load(order o = order::seq_cst) const noexcept { return self().load(o); }
    void store(T v, order o = order::seq_cst) noexcept { self().store(v, o); }
    T    exchange(T v, order o = order::seq_cst) noexcept { return self().exchange(v, o); }
    T    fetch_add(T v, order o = order::seq_cst) noexcept { return self().fetch_add(v, o); }
    T    fetch_sub(T v, order o = order::seq_cst) noexcept { return self().fetch_sub(v, o); }
    T    fetch_or(T v, order o = order::seq_cst) noexcept { return self().fetch_or(v, o); }
    T    fetch_and(T v, order o = order::seq_cst) noexcept { return self().fetch_and(v, o); }
    bool compare_exchange_strong(T& was, T v, order o = order::seq_cst) noexcept {
        return self().compare_exchange_strong(was, v, o);
    }
    bool compare_exchange_weak(T& was, T v, order o = order::seq_cst) noexcept {
        return self().compare_exchange_weak(was, v, o);
    }

private:
    std::atomic_ref<T> self() const noexcept { return std::atomic_ref<T>(const_cast<T&>(value)); }
};

}  // namespace tenure::detail

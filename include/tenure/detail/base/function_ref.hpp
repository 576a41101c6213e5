// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace tenure::detail {

template <class>
class function_ref;

/// Refers to something callable, for the time of a call.
template <class R, class... Args>
class function_ref<R(Args...)> {
public:
    template <class F>
        requires(!std::is_same_v<std::remove_cvref_t<F>, function_ref> && std::is_invocable_r_v<R, F&, Args...>)
    function_ref(F&& f) noexcept  // NOLINT(google-explicit-constructor,bugprone-forwarding-reference-overload)
        : object_(const_cast<void*>(static_cast<void const*>(std::addressof(f)))),
          call_([](void* o, Args... args) -> R {
              auto& call = *static_cast<std::remove_reference_t<F>*>(o);
              if constexpr (std::is_void_v<R>) call(std::forward<Args>(args)...);
              else return call(std::forward<Args>(args)...);
          }) {}

    R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

private:
    void* object_;
    R (*call_)(void*, Args...);
};

}  // namespace tenure::detail

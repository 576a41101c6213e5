// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <memory_resource>
#include <string>
#include <type_traits>
#include <vector>

namespace tenure {

/// Whether all that T's destructor does is to give memory back to T's polymorphic_allocator. Such a T, made with
/// the batch's own resource() as its last argument, needs no destructor call: its memory goes with the batch. So
/// `make<std::pmr::string>(text, batch.resource())` ends for nothing. Specialise it for containers of your own.
template <class T>
inline constexpr bool only_memory = std::is_trivially_destructible_v<T>;

template <class C, class Traits>
inline constexpr bool only_memory<std::basic_string<C, Traits, std::pmr::polymorphic_allocator<C>>> = true;

template <class T>
inline constexpr bool only_memory<std::vector<T, std::pmr::polymorphic_allocator<T>>> = only_memory<T>;

/// Whether everything that a T refers to lies in itself or in its batch, so that its bytes and the batch's bring it
/// back. Then a checkpoint may be taken although there are some. What has no destructor, and `only_memory` on the
/// batch's own resource(), needs no specialisation.
template <class T>
inline constexpr bool restorable = false;

}  // namespace tenure

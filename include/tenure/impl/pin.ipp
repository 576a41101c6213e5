// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <source_location>

#include <tenure/detail/base/owned_ptr.hpp>
#include <tenure/detail/uses/pin_guard.ipp>
#include <tenure/impl/registry.ipp>
#include <tenure/pin.hpp>

namespace tenure::detail {

TENURE_DECL failure pin_calls::borrow(lane const& user, raw_handle h, std::source_location where) noexcept {
    return pin_for(*user.batch, h, true, where).why;
}

TENURE_DECL failure pin_calls::borrow(registry_core& r, std::uint64_t user, raw_handle h,
                                      std::source_location where) noexcept {
    return borrow_for(r, user, h, where);
}

/// Not inline: see new_paging().
owned_ptr<uses_front> new_uses(registry_core& r) {
    registry_uses::be_ready_for_forks();
    return owned_ptr<uses_front>(new registry_uses(r));
}

struct use_copies {
    static constexpr void const *objects = &stock<pinned_object>::common_, *pins = &stock<pin_record>::common_;
};

extern "C" {
/// What a process has of this once: life/one_copy.hpp.
void const* const tenure_copies_of_uses[] = {use_copies::objects, use_copies::pins, nullptr};
}

}  // namespace tenure::detail

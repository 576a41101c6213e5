// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tenure {

/// Why a manager refused to copy, drop or move a buffer.
enum class refusal : std::uint8_t {
    none,           ///< it was accepted
    gone,           ///< the buffer was freed
    no_candidates,  ///< the list of candidates is empty
    no_copy,        ///< there is no verified copy to copy from, or none in a candidate to be dropped
    has_it,         ///< every candidate has a copy, or gets one
    none_running,   ///< no candidate is running
    no_room,        ///< no candidate has room for it
    last_copy,      ///< no other store would have it for good
    declared,       ///< there would be fewer copies than were asked for
    in_use,         ///< somebody reads it
    just_acquired,  ///< a policy wanted this copy in one of the last ten cycles
    failing,        ///< nothing is in the way, but the stores do not do it
};
inline constexpr std::size_t refusals = static_cast<std::size_t>(refusal::failing) + 1;

/// Returns a sentence without its full stop.
constexpr std::string_view text_of(refusal why) noexcept {
    switch (why) {
    case refusal::none: return "accepted";
    case refusal::gone: return "the buffer was freed";
    case refusal::no_candidates: return "the list of candidates is empty";
    case refusal::no_copy: return "no candidate has a verified copy";
    case refusal::has_it: return "every candidate has a copy, or gets one";
    case refusal::none_running: return "no candidate is running";
    case refusal::no_room: return "no candidate has room for it";
    case refusal::last_copy: return "no other store would have it";
    case refusal::declared: return "fewer copies would be left than were asked for";
    case refusal::in_use: return "somebody reads it";
    case refusal::just_acquired: return "it was acquired in one of the last ten cycles";
    case refusal::failing: return "copying it fails; see whether all stores answer";
    }
    return "?";
}

}  // namespace tenure

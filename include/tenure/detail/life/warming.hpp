// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <new>
#include <string>

#include <tenure/detail/base/available_memory.hpp>
#include <tenure/detail/base/function_ref.hpp>
#include <tenure/detail/base/sizes.hpp>
#include <tenure/detail/batch/process.hpp>
#include <tenure/eviction.hpp>
#include <tenure/raise.hpp>
#include <tenure/snapshot.hpp>

namespace tenure::detail {

/// Makes free memory ready before somebody needs it. What is ready lies in the depot's free runs, and has its
/// pages.

/// Returns how many bytes may be made ready: the system keeps an eighth of what it has left.
TENURE_COLD inline std::size_t room_to_warm(registry_core& r) noexcept {
    return r.own.store.capabilities().anonymous ? available_memory() / 8 * 7 : any_amount;
}

/// Returns how many bytes of free memory may be ready within registry_options::memory_limit.
TENURE_COLD inline std::size_t room_in_limit(registry_core& r, memory_limits const& limit) noexcept {
    if (limit.high == no_limit) return any_amount;
    std::size_t const held = r.own.slabs.usage().held;
    std::size_t const out  = r.pages ? run_or<std::bad_alloc>([&] { return r.pages->describe().out; },
                                                             [](auto const&) { return std::size_t{0}; })
                                     : 0;
    std::size_t const in   = held - std::min(held, out);
    return limit.high - std::min(limit.high, in);
}

/// Makes some more free memory ready, unless `enough` bytes are. Returns the bytes; 0: enough are. Errors:
/// memory_full, and what the store reports.
TENURE_COLD inline result<std::size_t> warm_some(registry_core& r, std::size_t enough) noexcept {
    constexpr std::size_t piece = std::size_t{32} << 20;  // 8 ms in huge pages, and for the last one too many
    std::size_t const     ready = r.own.slabs.usage().dirty;
    if (ready >= enough) return std::size_t{0};
    if (std::min(enough - ready, piece) > room_to_warm(r)) return make_error_code(errc::memory_full);
    return r.own.slabs.warm(enough, piece);
}

/// Returns how much is missing until `bytes` of free memory are ready.
inline std::size_t missing_warmth(registry_core& r, std::size_t bytes) noexcept {
    return bytes - std::min(bytes, r.own.slabs.usage().dirty);
}

/// Does one registry::warm(). Errors: those of warm_some(); memory_full also if there is no room in `limit`.
TENURE_COLD inline result<std::size_t> make_warm(registry_core& r, memory_limits const& limit, std::size_t bytes,
                                                 function_ref<bool()> stopped) {
    if (bytes > std::min(room_in_limit(r, limit), largest_object) || missing_warmth(r, bytes) > room_to_warm(r))
        return make_error_code(errc::memory_full);
    r.own.slabs.stay_warm(bytes);
    std::size_t done = 0;
    while (!stopped()) {
        result<std::size_t> const more = warm_some(r, bytes);
        if (!more) return more.error();
        if (*more == 0) break;
        done += *more;
    }
    return done;
}

/// Returns what to say of a warm() that failed: how much there is room for.
TENURE_COLD inline std::string why_cold(registry_core& r, memory_limits const& limit, std::size_t bytes) {
    std::string       what    = "warm " + human_bytes(bytes) + " of free memory";
    std::size_t const limited = room_in_limit(r, limit);
    if (bytes > limited)
        return what + " where registry_options::memory_limit leaves " + human_bytes(limited) +
               " (raise it, or warm less)";
    std::size_t const missing = missing_warmth(r, bytes);
    std::size_t const left    = room_to_warm(r);
    if (missing <= left) return what;
    return what + ", of which " + human_bytes(missing) +
           " are missing, where the system or the control group leaves " + human_bytes(left) + " (warm less)";
}

}  // namespace tenure::detail

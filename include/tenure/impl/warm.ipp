// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <tenure/detail/life/warming.hpp>
#include <tenure/impl/registry.ipp>
#include <tenure/raise.hpp>
#include <tenure/warm.hpp>

namespace tenure::detail {

TENURE_DECL result<std::size_t> warm_calls::try_warm(registry_core& in, memory_limits const& limit,
                                                     std::size_t bytes, function_ref<bool()> stopped) {
    return make_warm(in, limit, bytes, stopped);
}

TENURE_DECL std::size_t warm_calls::warm(registry_core& in, memory_limits const& limit, std::size_t bytes,
                                         function_ref<bool()> stopped) {
    result<std::size_t> const done = make_warm(in, limit, bytes, stopped);
    if (!done) raise(error(done.error(), why_cold(in, limit, bytes)));
    return *done;
}

}  // namespace tenure::detail

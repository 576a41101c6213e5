// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <cstddef>

#include <tenure/detail/base/function_ref.hpp>
#include <tenure/eviction.hpp>
#include <tenure/registry.hpp>
#include <tenure/result.hpp>

// Opt-in: warm() of a registry. <tenure/tenure.hpp> has it.

namespace tenure::detail {

struct warm_calls {
    TENURE_DECL static std::size_t         warm(registry_core& in, memory_limits const& limit, std::size_t bytes,
                                                function_ref<bool()> stopped);
    TENURE_DECL static result<std::size_t> try_warm(registry_core& in, memory_limits const& limit,
                                                    std::size_t bytes, function_ref<bool()> stopped);
};

}  // namespace tenure::detail

#ifndef TENURE_SEPARATE
#include <tenure/impl/warm.ipp>
#endif

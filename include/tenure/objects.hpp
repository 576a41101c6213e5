// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <string_view>
#include <vector>

#include <tenure/object_info.hpp>
#include <tenure/registry.hpp>

// Opt-in: for_each_object(), record_objects() and name_object() of registry.

namespace tenure::detail {

struct object_calls {
    TENURE_DECL static std::vector<object_info> objects_of(registry_core& in, batch_id id);
    TENURE_DECL static void                     record(registry_core& in, bool on);
    TENURE_DECL static failure name(registry_core& in, raw_handle h, finalizer const& what, std::string_view text);
};

}  // namespace tenure::detail

#ifndef TENURE_SEPARATE
#include <tenure/impl/objects.ipp>
#endif

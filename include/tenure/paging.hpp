// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <cstddef>

#include <tenure/batch_scope.hpp>
#include <tenure/registry.hpp>

// Opt-in: batches that go to disk while they are idle: registry_options::memory_limit, batch_options::residency,
// registry::page_out and page_in. <tenure/tenure.hpp> has it.

namespace tenure::detail {

struct paging_calls {
    TENURE_DECL static void        page_out(registry_core& in, batch_id id);
    TENURE_DECL static std::size_t page_out_idle(registry_core& in, std::size_t bytes);
    TENURE_DECL static void        page_in(registry_core& in, batch_id id);
};

}  // namespace tenure::detail

#ifndef TENURE_SEPARATE
#include <tenure/impl/paging.ipp>
#endif

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <tenure/detail/objects/batch_figures.hpp>
#include <tenure/detail/objects/expiry.hpp>
#include <tenure/detail/objects/ownership_transfer.hpp>
#include <tenure/detail/objects/throwing.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

[[noreturn, gnu::cold]] TENURE_DECL void throw_failure(failure const& why, char const* what) {
    std::string call = what;
    if (why.batch) call += label_of(*why.batch);
    else if (why.id) call += label_of(why.id);
    else if (call.ends_with(' ')) call.pop_back();
    if (why.code == errc::limit_exceeded)
        call += ": " + std::to_string(why.in_use) + " bytes in use, " + std::to_string(why.wanted) +
                " more wanted, limit " + std::to_string(why.batch->rest.limits.hard);
    if (why.code == errc::memory_full) {
        call += ": " + std::to_string(why.wanted) + " bytes wanted";
        registry_core* const r = why.batch ? why.batch->registry.load(std::memory_order_relaxed) : nullptr;
        if (r && r->pages && r->pages->limited) call += r->pages->largest_holders();
    }
    if (why.code == errc::store_full)
        call += ": " + std::to_string(why.wanted) + " bytes wanted of store " + why.batch->slabs->store.describe();
    raise(error(why.code, call));
}

[[noreturn, gnu::cold]] TENURE_DECL void throw_refused(raw_handle h, errc why) {
    raise(error(why, h.word == 0 ? "access through a null handle" : "access through a handle"));
}

[[noreturn, gnu::cold]] TENURE_DECL void throw_stale(raw_handle h) { throw_refused(h, stale_because(resolve(h))); }

[[noreturn, gnu::cold]] TENURE_DECL void throw_out_of_range(std::size_t i, std::size_t n) {
    raise(error(errc::out_of_range, "element " + std::to_string(i) + " of an array of " + std::to_string(n)));
}

}  // namespace tenure::detail

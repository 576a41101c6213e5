// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include <tenure/detail/base/printed.hpp>
#include <tenure/detail/base/sizes.hpp>
#include <tenure/detail/objects/batch_figures.hpp>
#include <tenure/detail/objects/expiry.hpp>
#include <tenure/detail/objects/ownership_transfer.hpp>
#include <tenure/detail/objects/throwing.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

[[noreturn, gnu::cold]] TENURE_DECL void throw_failure(failure const& why, char const* what) {
    std::string const batch = why.batch ? label_of(*why.batch) : why.id ? label_of(why.id) : std::string();
    std::string       more;
    if (why.code == errc::limit_exceeded)
        more = printed(": %zu bytes in use, %zu more wanted, limit %zu", why.in_use, why.wanted,
                       why.batch->rest.limits.hard);
    if (why.code == errc::memory_full) {
        registry_core* const r = why.batch ? why.batch->registry.load(std::memory_order_relaxed) : nullptr;
        if (r && r->pages && r->pages->limited) more = r->pages->largest_holders();
        more = why.wanted < absurd_bytes ? printed(": %zu bytes wanted%s", why.wanted, more.c_str())
                                         : ": more elements than there can be; a negative number of them?";
    }
    if (why.code == errc::store_full)
        more = printed(": %zu bytes wanted of store %s", why.wanted, why.batch->slabs->store.describe().c_str());
    int const n = static_cast<int>(std::strlen(what)) - (batch.empty() && std::string_view(what).ends_with(' '));
    raise(error(why.code, printed("%.*s%s%s", n, what, batch.c_str(), more.c_str())));
}

[[noreturn, gnu::cold]] TENURE_DECL void throw_refused(raw_handle h, errc why) {
    raise(
        error(why, h.word ? "access through a handle" : "access through a null handle, which was given no object"));
}

[[noreturn, gnu::cold]] TENURE_DECL void throw_stale(raw_handle h) { throw_refused(h, stale_because(resolve(h))); }

[[noreturn, gnu::cold]] TENURE_DECL void throw_out_of_range(std::size_t i, std::size_t n) {
    raise(error(errc::out_of_range, printed("element %zu of an array of %zu", i, n)));
}

}  // namespace tenure::detail

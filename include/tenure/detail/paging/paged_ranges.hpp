// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <vector>

#include <tenure/detail/objects/unit_shares.hpp>
#include <tenure/detail/paging/page_space.hpp>

namespace tenure::detail {

/// Finds the memory that goes out with a batch: every unit of its own store in which no other batch owns anything.
/// That store stays as long as the batch; another may go with the last object that the batch received there.

/// Returns, by address, the batch's runs and the units of other batches in which it owns something. Nobody may be
/// inside the batch.
inline std::vector<paged_range> runs_of(batch_record& b) {
    std::vector<paged_range> out;
    for (std::size_t n = 64; n > out.capacity();) {
        out.clear();
        out.reserve(n);
        n              = 0;
        auto const add = [&](std::uintptr_t begin, std::size_t units) {
            if (++n <= out.capacity()) out.push_back({begin, units << unit_shift, {}});
        };
        std::scoped_lock const guard(b.lock);
        for (unit const* u = b.primary.runs; u; u = u->next) add(u->address, u->length);
        for (lane const* l = b.lanes; l; l = l->next)
            for (unit const* u = l->runs; u; u = u->next) add(u->address, u->length);
        for (unit const* u = b.large; u; u = u->next) add(u->address, u->length);
        for (share const* s = b.shares; s; s = s->next_owned) add(s->base, 1);
    }
    std::sort(out.begin(), out.end(), [](auto const& x, auto const& y) { return x.begin < y.begin; });
    return out;
}

/// Returns the memory that only this batch owns parts of, neighbours joined, without what lies in `known`, which
/// is ordered.
inline std::vector<paged_range> ranges_of(batch_record& b, std::vector<paged_range> const& known) {
    std::vector<paged_range> out;
    auto                     next = known.begin();
    std::uintptr_t           done = 0;  // a unit may come twice: as part of a run, and for a share in it
    for (paged_range const& run : runs_of(b)) {
        for (std::uintptr_t a = std::max(run.begin, done); a < run.end(); a += unit_bytes) {
            done = a + unit_bytes;
            while (next != known.end() && next->end() <= a) ++next;
            if (next != known.end() && next->begin <= a) continue;
            place const p = place_at(a);
            if (p.where->from != b.slabs || !is_all_of(b, p)) continue;
            constexpr std::size_t most = std::size_t{1} << 30;  // each is one system call, one piece of the file
            if (!out.empty() && out.back().end() == a && out.back().bytes < most) out.back().bytes += unit_bytes;
            else out.push_back({a, unit_bytes, {}});
        }
    }
    return out;
}

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <vector>

#include <tenure/detail/buffers/stored.hpp>
#include <tenure/snapshot.hpp>

namespace tenure::detail {

/// Reports what is in stores, for a snapshot. Stores are asked for their names with no lock held.

/// Returns what one batch has in its stores, newest store first, and adds it to the totals in `all`.
inline std::vector<store_info> stores_of(batch_record& b, std::vector<store_info>& all,
                                         std::vector<supply const*> const& supplies) {
    struct item {
        supply const* from;
        any_store     store;
        flow          live;
    };
    std::vector<item> items;
    for (std::size_t n = b.stores.load(std::memory_order_relaxed) ? 4 : 0; n > items.capacity();) {
        items.reserve(n);
        n = 0;
        std::scoped_lock const guard(b.lock);
        for (stored const* in = b.stores.load(std::memory_order_relaxed); in; in = in->next)
            if (++n <= items.capacity()) items.push_back({in->from, in->from->store, in->live()});
        if (n > items.capacity()) items.clear();
    }
    std::vector<store_info> out;
    for (item const& i : items) {
        if (i.live.buffers == 0) continue;
        out.push_back({.name = i.store.describe(), .buffers = i.live.buffers, .bytes = i.live.bytes});
        for (std::size_t k = 0; k < supplies.size(); ++k) {
            if (supplies[k] != i.from) continue;
            all[k].buffers += i.live.buffers;
            all[k].bytes += i.live.bytes;
        }
    }
    return out;
}

/// Returns the stores of a registry, without what batches have there. `supplies` tells which supply each entry is
/// of. Do not dereference these pointers: the supplies may be gone.
inline std::vector<store_info> stores_of(registry_core& r, std::vector<supply const*>& supplies) {
    std::vector<store_info> out;
    std::vector<any_store>  stores;
    auto const              look_at = [&](supply const& s) {
        unfreed::figures const left = s.refused.usage();
        supplies.push_back(&s);
        stores.push_back(s.store);
        out.push_back({.name          = {},
                                    .slabs         = s.slabs.usage().mapped,
                                    .unfreed       = left.blocks,
                                    .unfreed_bytes = left.bytes,
                                    .error         = left.why});
    };
    {
        std::scoped_lock const guard(r.supplies_mutex);
        look_at(r.own);
        for (supply const* s = r.supplies; s; s = s->next) look_at(*s);
    }
    for (std::size_t i = 0; i < out.size(); ++i) out[i].name = stores[i].describe();
    return out;
}

}  // namespace tenure::detail

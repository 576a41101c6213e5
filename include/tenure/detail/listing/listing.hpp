// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tenure/detail/base/barrier.hpp>
#include <tenure/detail/batch/entry_lists.hpp>
#include <tenure/detail/life/calls.hpp>
#include <tenure/detail/life/exclusive_claim.hpp>
#include <tenure/detail/listing/object_records.hpp>
#include <tenure/detail/objects/large.hpp>
#include <tenure/object_info.hpp>

namespace tenure::detail {

/// Lists a batch's objects: those that were recorded or have a name; and, if nobody else is in the batch, those
/// that have an end to run, which it has in lists.
class listing {
public:
    /// Throws std::bad_alloc.
    listing(registry_core& in, batch_record& b, std::uint64_t id) {
        if (object_recorder const* const r = in.recorder.load(std::memory_order_acquire))
            known_ = static_cast<object_records const*>(r)->those([&](raw_handle h) {
                read_section const here;
                return find_owner(h).id == id;
            });
        if (&b == in.root) return;
        exclusive_claim const claim(b, id, batch_flags::closed);
        if (claim.why() != errc{}) return;
        for_lanes(b, [&](lane const& l) { add(l.entries); });
        add(b.inbox);
    }

    /// Returns them as they were made; those of which that is not known come first. Throws std::bad_alloc.
    std::vector<object_info> objects() const {
        std::vector<object_record const*> order;
        order.reserve(known_.size());
        for (auto const& [begin, r] : known_) order.push_back(&r);
        std::ranges::sort(order, {}, [](object_record const* r) { return std::pair(r->serial, r->address); });
        std::vector<object_info> out;
        out.reserve(order.size());
        for (object_record const* const r : order)
            out.push_back({.address    = r->address,
                           .bytes      = r->bytes,
                           .name       = r->name,
                           .made_at    = r->made_at ? *r->made_at : call_stack{},
                           .is_adopted = r->is_adopted,
                           .of_type    = r->type});
        return out;
    }

private:
    /// Nobody else is in the batch.
    void add(entry* first) {
        for (entry* e = first; e; e = e->next) {
            std::uintptr_t const s = e->state.load(std::memory_order_acquire);
            if (s & (entry::dead | entry::moved)) continue;  // it is over, or another's
            add(*(s & entry::proxied ? static_cast<proxy*>(e)->object : e), finalizer_of(s));
        }
    }

    void add(entry& e, finalizer const& f) {
        if (f.size == 0) return;
        std::uintptr_t const begin  = to_address(&e);
        std::uintptr_t const object = object_at(begin, before_object(f), f.alignment());
        object_record&       r      = known_[begin];
        std::size_t const    n      = f.is_array ? static_cast<array_entry&>(e).count : 1;
        r.type                      = f.type;  // which a handle by which it was named may not tell
        r.is_adopted                = f.drop;
        r.address                   = to_pointer(object);
        // What stands for an adopted object begins with a pointer to it.
        if (f.drop) std::memcpy(static_cast<void*>(&r.address), to_pointer(object), sizeof r.address);
        if (r.bytes) return;
        r.bytes = round_extent(object - begin + n * f.size);
        if (r.bytes > largest_small / 2) r.bytes = bytes_of_large(begin, r.bytes);
    }

    /// Returns the bytes of an object that may have a run of its own.
    static std::size_t bytes_of_large(std::uintptr_t begin, std::size_t else_bytes) noexcept {
        std::size_t const large = unit_at(begin)->large_bytes.load(std::memory_order_relaxed);
        return large ? large : else_bytes;
    }

    std::unordered_map<std::uintptr_t, object_record> known_;
};

/// Has the makes in a registry that records since just now come to refill(). A lane's thread that opens a window
/// meanwhile sees that it records, or this closes the window: the heavy barrier pairs with that of open_window().
inline void close_windows_of(registry_core const& r) noexcept {
    heavy_barrier();
    for_records([&](batch_record& b) {
        std::scoped_lock const guard(b.lock);
        if (is_in_use(b, r)) for_lanes(b, [](lane& l) { l.window_end.store(0, std::memory_order_relaxed); });
    });
}

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory_resource>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenure/detail/buffers/buffer_moves.hpp>
#include <tenure/detail/checkpoints/checkpoint_claim.hpp>
#include <tenure/lane.hpp>

namespace tenure {

namespace detail {

/// Holds the name of a buffer. It is an object of the batch like others, and is found among those with
/// destructors.
struct buffer_name {
    raw_handle       what;
    std::size_t      bytes;
    std::pmr::string text;
};

}  // namespace detail

template <>
inline constexpr bool restorable<detail::buffer_name> = true;  // its text is in the batch

namespace detail {

inline void name_buffer(lane& l, raw_handle what, std::size_t bytes, std::string_view text) {
    make_in<buffer_name>(l, what, bytes, std::pmr::string(text, resource_of(l)));
}

/// Returns the names of the buffers that `b` owns, each name for the buffer that was given it last. No other
/// thread is in the batch.
inline std::vector<buffer_name const*> names_in(batch_record& b) {
    std::vector<buffer_name const*> out;
    read_section const              here;
    for_lanes(b, [&](lane& l) {
        for (entry* e = l.entries; e; e = e->next) {
            std::uintptr_t const state = e->state.load(std::memory_order_acquire);
            if (state & (entry::dead | entry::moved)) continue;
            if (&finalizer_of(state) != &object_finalizer<buffer_name>) continue;
            auto const* const n     = object_after<buffer_name>(e);
            auto const        is_it = [&](buffer_name const* other) { return other->text == n->text; };
            if (std::any_of(out.begin(), out.end(), is_it)) continue;  // the other is newer
            if (find_owner(n->what).record == &b) out.push_back(n);
        }
    });
    return out;
}

}  // namespace detail

}  // namespace tenure

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <tenure/detail/base/os.hpp>
#include <tenure/detail/buffers/buffer_access.hpp>
#include <tenure/detail/buffers/buffer_moves.hpp>
#include <tenure/detail/buffers/named_buffers.hpp>
#include <tenure/detail/life/changing.hpp>
#include <tenure/detail/life/exclusive_claim.hpp>
#include <tenure/detail/objects/make_object.hpp>
#include <tenure/only_memory.hpp>
#include <tenure/raise.hpp>

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

TENURE_DECL void name_buffer(lane& l, raw_handle what, std::size_t bytes, std::string_view name) {
    make_object<buffer_name>(l, throw_it{}, what, bytes, std::pmr::string(name, resource_of(l)));
}

/// Returns the names of the buffers that `b` owns, each name for the buffer that was given it last. No other
/// thread is in the batch.
inline std::vector<buffer_name const*> names_in(batch_record& b) {
    std::vector<buffer_name const*> out;
    std::set<std::string_view>      names;
    read_section const              here;
    for_lanes(b, [&](lane& l) {
        for (entry* e = l.entries; e; e = e->next) {
            std::uintptr_t const state = e->state.load(std::memory_order_acquire);
            if (state & (entry::dead | entry::moved)) continue;
            if (&finalizer_of(state) != &object_finalizer<buffer_name>) continue;
            auto const* const n = object_after<buffer_name>(e);
            if (names.contains(n->text) || find_owner(n->what).record != &b) continue;  // what is there is newer
            names.insert(n->text);
            out.push_back(n);
        }
    });
    return out;
}

/// Returns how far a job is.
inline carried_figures figures_of_job(batch_record& b) noexcept {
    std::uint64_t const opened = b.opened_ns.load(std::memory_order_relaxed), now = coarse_now();
    carried_figures     out{.elapsed = now - std::min(opened, now)};
    for (std::size_t i = 0; i < waits_known; ++i) out.waited[i] = waited_so_far(b, i, now);
    std::scoped_lock const guard(b.lock);
    if (progress_meter const* const m = b.rest.progress) {
        out.done  = m->done();
        out.total = m->total();
        out.elapsed += m->before();
        for (std::size_t i = 0; i < waits_known; ++i) out.waited[i] += m->waited_before(i);
    }
    return out;
}

TENURE_DECL void go_on_from(lane& l, carried_figures const& from) {
    if (!with_meter(*l.batch, [&](progress_meter& m) { m.go_on(from, coarse_now()); })) raise(std::bad_alloc());
}

TENURE_DECL void with_named_buffers(std::uint64_t                                                 id,
                                    function_ref<void(each_named_buffer, carried_figures const&)> write) {
    batch_record* const b = find_anywhere(id);
    auto const fail       = [&](errc why) { raise(error(why, "save batch " + (b ? label_of(*b) : label_of(id)))); };
    if (!b) fail(errc::batch_ended);
    if (is_root(*b)) fail(errc::batch_in_use);
    exclusive_claim const claim(*b, id, unless_over);
    if (claim.why() != errc{}) fail(claim.why());

    auto const each = [&](function_ref<void(named_buffer const&)> one) {
        for (buffer_name const* const n : names_in(*b)) {
            auto const& from = *static_cast<buffer_record const*>(n->what.pointer);
            if (!from.is_here()) fail(without_bytes(*b).code);
            one({n->text, from.from->store, from.where, n->bytes});
        }
    };
    write(each, figures_of_job(*b));
}

TENURE_DECL raw_handle restore_named_buffer(lane& l, std::string_view name, any_store& from, block where) {
    raw_handle const    made = make_buffer_in(l, where.bytes, 64, {});
    auto const&         to   = *static_cast<buffer_record const*>(made.pointer);
    buffer_access const at(&to);
    if (!at) raise(std::bad_alloc());
    if (!to.is_here()) throw_failure({l.batch->why_closed(), l.batch}, "restore to batch ");
    auto const done = copy_block({from, where}, {to.from->store, to.where}, where.bytes);
    if (!done) throw_copy_error(done.error(), "restore", from, to.from->store);
    name_buffer(l, made, where.bytes, name);
    return made;
}

}  // namespace detail

}  // namespace tenure

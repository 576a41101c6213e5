// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <string_view>

#include <tenure/detail/life/calls.hpp>
#include <tenure/detail/objects/batch_figures.hpp>

namespace tenure::detail {

inline std::string leak_of(batch_record& b, std::uint64_t id) {
    std::source_location const where = b.where.load(std::memory_order_acquire);
    std::uint64_t const        ms    = (coarse_now() - b.opened_ns.load(std::memory_order_acquire)) / 1'000'000;
    batch_usage const          now   = usage_of(b);
    std::string const          name  = name_of(b);
    std::string_view const     in    = function_at(where);
    return printed("  %s %s %s, %zu objects, %zu bytes in use, age %zu ms, opened at %s:%u in %.*s\n",
                   name.empty() ? "(no name)" : name.c_str(), id_text(id).c_str(), to_string(status_of(b, id)),
                   now.objects, now.bytes, ms, where.file_name(), where.line(), static_cast<int>(in.size()),
                   in.data());
}

/// Describes the batches of a registry that have no guard, one line a batch; not what is meant to live long, nor
/// what is reclaimed in the background or shared, which ends by itself.
inline std::string leaks_of(registry_core& r) {
    std::string out;
    for_records([&](batch_record& b) {
        std::uint64_t const id    = b.id.load(std::memory_order_acquire);
        std::uint64_t const state = b.state.load(std::memory_order_acquire);
        bool const          lives = id != 0 && same_batch(state, id) && !(state & batch_flags::done);
        if (!lives || b.registry.load(std::memory_order_acquire) != &r || is_root(b)) return;
        if (b.guard.load(std::memory_order_acquire) || b.reclaim_pending.load(std::memory_order_acquire)) return;
        if (is_common(b) || b.ends_as(end_flags::long_lived)) return;
        std::string const line = leak_of(b, id);
        if (b.id.load(std::memory_order_acquire) == id) out += line;
    });
    return out.empty() ? out : "tenure: batches that nobody ended:\n" + out;
}

}  // namespace tenure::detail

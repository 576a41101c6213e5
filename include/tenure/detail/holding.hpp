// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>

#include <tenure/detail/process.hpp>

namespace tenure::detail {

/// Sets a flag, unless the record is another batch's by now or has one of `unless`. Returns the state before.
struct flag_set {
    bool          done;
    std::uint64_t before;
};
inline flag_set set_flag(batch_record& b, std::uint64_t id, std::uint64_t flag, std::uint64_t unless) noexcept {
    std::uint64_t s = b.state.load(std::memory_order_acquire);
    do {
        if (!same_batch(s, id) || s & unless) return {false, s};
    } while (!b.state.compare_exchange_weak(s, s | flag, std::memory_order_seq_cst));
    return {true, s};
}

/// Keeps the batch's memory from going, whatever ends it. False: it is over.
inline bool hold(batch_record& b, std::uint64_t id, std::uint64_t unless = batch_flags::closed) noexcept {
    std::uint64_t s = b.state.load(std::memory_order_acquire);
    do {
        if (!same_batch(s, id) || s & unless) return false;
    } while (!b.state.compare_exchange_weak(s, s + 1, std::memory_order_acq_rel));
    return true;
}

inline bool is_root(batch_record const& b) noexcept {
    return b.registry.load(std::memory_order_relaxed)->root == &b;
}

/// As hold, of a batch that is there for sure: whoever ended it, as long as its end has not begun to free it.
inline bool hold_until_freed(batch_record& b) noexcept {
    if (is_root(b)) return true;
    std::uint64_t s = b.state.load(std::memory_order_acquire);
    do {
        if (s & batch_flags::done || (s & batch_flags::ended && !(s & batch_flags::holds))) return false;
    } while (!b.state.compare_exchange_weak(s, s + 1, std::memory_order_acq_rel));
    return true;
}

/// The memory is still there, even if nothing can be made: so a batch that was ended with cleanup::manual counts.
inline constexpr std::uint64_t unless_over = batch_flags::ended | batch_flags::done;

/// Gives a hold back; with the last one a batch that is over is reclaimed, and one that is paged_when_left goes
/// out.
void let_go(batch_record* b) noexcept;

/// The same, but it stays where it is.
void let_go_in_place(batch_record* b) noexcept;

}  // namespace tenure::detail

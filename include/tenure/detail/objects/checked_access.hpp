// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/word.hpp>
#include <tenure/detail/space/tables.hpp>

namespace tenure::detail {

/// What is_alive() does where the table does not vouch for all handles of a unit. `locked`: under the object's
/// lock.
TENURE_DECL bool alive_guarded(raw_handle h, bool locked) noexcept;

/// The check of every access: one hot load and a compare. Thread-safe. The answer holds as long as no thread frees
/// the object.
[[gnu::always_inline]] inline bool is_alive(raw_handle h, bool locked = false) noexcept {
    word_t const seen = table_word(to_address(h.pointer)).load(std::memory_order_relaxed);
    if ((seen ^ h.word) >> generation_shift == 0) [[likely]]
        return true;
    return alive_guarded(h, locked);
}

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/detail/objects/checked_access.hpp>
#include <tenure/detail/objects/liveness.hpp>

namespace tenure::detail {

/// Answers is_alive() when the table's word differs. Opens a read_section, except under the object's lock: a
/// section must not end under a lock, and a thread that has the lock of a unit has come to it in a section of its
/// own, or holds the batch.
TENURE_SLOW inline bool ask_where_guarded(raw_handle h, bool locked) noexcept {
    if (h.word == 0) return false;
    if (h.word & cell_flag) return adopted_alive(h.word);
    if (locked) return alive_in_unit(h, true);
    read_section const here;
    return alive_in_unit(h, false);
}

TENURE_DECL bool alive_guarded(raw_handle h, bool locked) noexcept { return ask_where_guarded(h, locked); }

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/detail/batch/hazard.hpp>
#include <tenure/detail/buffers/buffer_record.hpp>

namespace tenure::detail {

/// Announces that this thread reads or writes a buffer, so that another thread can tell whether it may take the
/// block away unasked.
class buffer_access : public hazard_guard {
public:
    explicit buffer_access(buffer_record const* b) noexcept : hazard_guard(b) {}
};

/// Returns whether a thread has announced the buffer. Called after a heavy_barrier().
inline bool is_accessed(buffer_record const* b) noexcept { return is_announced(b); }

}  // namespace tenure::detail

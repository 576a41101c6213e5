// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/detail/batch/batch_record.hpp>

namespace tenure::detail {

/// A queue of batches, which link to each other through `uses.next`. A batch is in one queue at most.
class batch_queue {
public:
    void push(batch_record& b) noexcept {
        b.rest.uses.next                         = nullptr;
        (last_ ? last_->rest.uses.next : first_) = &b;
        last_                                    = &b;
    }
    batch_record* pop() noexcept {
        batch_record* const b = first_;
        if (b) first_ = b->rest.uses.next;
        if (!first_) last_ = nullptr;
        return b;
    }
    bool empty() const noexcept { return !first_; }

private:
    batch_record* first_ = nullptr;
    batch_record* last_  = nullptr;
};

}  // namespace tenure::detail

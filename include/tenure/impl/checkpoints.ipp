// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <string>

#include <tenure/checkpoints.hpp>
#include <tenure/detail/checkpoints/rolling_back.hpp>
#include <tenure/impl/batch_scope.ipp>
#include <tenure/impl/registry.ipp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Returns the batch of a scope, which was not detached.
inline batch_record& undoable(lane& of, std::uint64_t id, char const* call) {
    if (!of.batch->registry.load(std::memory_order_relaxed))
        raise(error(errc::batch_ended, call + (" batch " + label_of(id)) + ", which was detached"));
    return *of.batch;
}
inline batch_record& undoable(registry& in, batch_id id, char const* call) {
    found const f = find_known(core_of(in), id.value, (call + std::string(" batch ")).c_str());
    if (!f.record) raise(error(errc::batch_ended, call + (" batch " + label_of(id.value))));
    return *f.record;
}

TENURE_DECL void checkpoint_calls::take(lane& of, std::uint64_t id) {
    take_checkpoint(undoable(of, id, "checkpoint of"), id);
}
TENURE_DECL void checkpoint_calls::take(registry& in, batch_id id) {
    take_checkpoint(undoable(in, id, "checkpoint of"), id.value);
}
TENURE_DECL void checkpoint_calls::end(lane& of, std::uint64_t id, bool back) {
    end_checkpoint(undoable(of, id, back ? "roll back" : "commit"), id, back);
}
TENURE_DECL void checkpoint_calls::end(registry& in, batch_id id, bool back) {
    end_checkpoint(undoable(in, id, back ? "roll back" : "commit"), id.value, back);
}

extern "C" {
/// What a process has of this once: life/one_copy.hpp.
void const* const tenure_copies_of_checkpoints[] = {&page_saver::inside, &cut_mappings, write_fault_copies::slots,
                                                    write_fault_copies::completed, nullptr};
}

}  // namespace tenure::detail

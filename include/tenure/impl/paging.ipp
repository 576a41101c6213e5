// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <system_error>
#include <utility>

#include <tenure/detail/base/owned_ptr.hpp>
#include <tenure/detail/paging/residency.hpp>
#include <tenure/impl/registry.ipp>
#include <tenure/paging.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Not inline, and in every source that includes this: weak symbols are merged as inline functions are.
owned_ptr<paging_front> new_paging(registry_core& r, paging_options options) {
    write_fault::be_ready_for_forks();
    return owned_ptr<paging_front>(new registry_paging(r, std::move(options)));
}

extern "C" {
/// What a process has of paging once: life/one_copy.hpp.
void const* const tenure_copies_of_paging[] = {&mappings, write_fault_copies::slots, write_fault_copies::completed,
                                               nullptr};
}

TENURE_DECL void paging_calls::page_out(registry_core& in, batch_id id) {
    batch_record* const b     = find_known(in, id.value, "page out batch ").record;
    std::string         label = b ? label_of(*b) : label_of(id.value);
    if (!in.pages) refuse_without("tenure/paging.hpp", "page out a batch of a registry that was opened");
    std::error_code why = make_error_code(errc::batch_ended);
    if (b == in.root) why = make_error_code(errc::not_pageable);  // is_root() would ask the record's next batch
    else if (b) why = page_out_batch(*b, id.value, true);
    if (why) raise(error(why, "page out batch " + label + " to " + space_of(in).options.directory));
}

TENURE_DECL std::size_t paging_calls::page_out_idle(registry_core& in, std::size_t bytes) {
    if (!in.pages) refuse_without("tenure/paging.hpp", "page out idle batches of a registry that was opened");
    return in.pages->page_out_idle(bytes);
}

TENURE_DECL void paging_calls::page_in(registry_core& in, batch_id id) {
    batch_record* const b = find_known(in, id.value, "page in batch ").record;
    if (!b || !hold_or_root(*b, id.value, unless_over))
        raise(error(errc::batch_ended, "page in batch " + label_of(id.value)));
    bool const all = is_root(*b) || !in.pages || page_in_batch(*b);
    if (!is_root(*b)) release_hold_in_place(b);
    if (!all)
        raise(error(std::make_error_code(std::errc::io_error),
                    "page in batch " + label_of(id.value) + " from " + space_of(in).options.directory));
}

}  // namespace tenure::detail

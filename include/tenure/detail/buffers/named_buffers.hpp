// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/function_ref.hpp>
#include <tenure/detail/base/word.hpp>
#include <tenure/detail/batch/lane.hpp>
#include <tenure/detail/batch/progress.hpp>
#include <tenure/store/any_store.hpp>

namespace tenure::detail {

/// Gives a buffer a name in the lane's batch, as long as that owns it. Throws as make().
TENURE_DECL void name_buffer(lane& l, raw_handle what, std::size_t bytes, std::string_view name);

struct named_buffer {
    std::string_view name;
    any_store&       store;
    block            where;
    std::size_t      bytes;
};

/// Claims the batch, so that no thread is inside or comes in, and runs `write` with how far the job is, and a
/// function that calls another for each buffer with a name. Throws batch_ended, batch_in_use, and why a buffer has
/// no bytes.
using each_named_buffer = function_ref<void(function_ref<void(named_buffer const&)>)>;
TENURE_DECL void with_named_buffers(std::uint64_t                                                 id,
                                    function_ref<void(each_named_buffer, carried_figures const&)> write);

/// Has the lane's batch go on where another one was. Throws std::bad_alloc.
TENURE_DECL void go_on_from(lane& l, carried_figures const& from);

/// Makes a buffer of that name in the lane's batch, with the bytes of a block. Throws as make(), and what the
/// stores report.
TENURE_DECL raw_handle restore_named_buffer(lane& l, std::string_view name, any_store& from, block where);

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <tenure/error.hpp>

namespace tenure::detail {

struct batch_record;

/// Why something was refused: enough to make a message, which is made only where something is thrown.
struct failure {
    errc                code{};
    batch_record const* batch  = nullptr;
    std::size_t         wanted = 0;
    std::size_t         in_use = 0;
    std::uint64_t       id     = 0;  ///< of a batch that is over, if there is no `batch`

    explicit operator bool() const noexcept { return code != errc{}; }
};

}  // namespace tenure::detail

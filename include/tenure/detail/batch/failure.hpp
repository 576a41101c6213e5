// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/word.hpp>
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

/// Throws `why`. `call` says what was tried, up to the batch's name.
[[noreturn, gnu::cold]] TENURE_DECL void throw_failure(failure const& why, char const* call);

/// The message says which handle it was; a handle of one that was adopted is followed.
[[noreturn, gnu::cold]] TENURE_DECL void throw_refused(raw_handle h, errc why);
[[noreturn, gnu::cold]] TENURE_DECL void throw_stale(raw_handle h);
[[noreturn, gnu::cold]] TENURE_DECL void throw_out_of_range(std::size_t i, std::size_t n);

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/word.hpp>
#include <tenure/detail/batch/failure.hpp>
#include <tenure/error.hpp>

namespace tenure::detail {

/// Throws `why`. `call` says what was tried, up to the batch's name.
[[noreturn, gnu::cold]] TENURE_DECL void throw_failure(failure const& why, char const* call);

/// The message says which handle it was, as far as its memory tells; a handle of one that was adopted is followed.
/// `function`: a __PRETTY_FUNCTION__ of a template over T, which names the type, or null. (A T may be incomplete,
/// so there is no type_identity.)
[[noreturn, gnu::cold]] TENURE_DECL void throw_refused(raw_handle h, errc why, char const* function = nullptr);
[[noreturn, gnu::cold]] TENURE_DECL void throw_stale(raw_handle h, char const* function = nullptr);
[[noreturn, gnu::cold]] TENURE_DECL void throw_out_of_range(std::size_t i, std::size_t n);

}  // namespace tenure::detail

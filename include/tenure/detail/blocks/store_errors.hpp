// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <system_error>

#include <tenure/detail/base/config.hpp>
#include <tenure/error.hpp>
#include <tenure/raise.hpp>
#include <tenure/store/any_store.hpp>

namespace tenure::detail {

/// Throws `why` with the name of the store, because a code alone does not tell it.
[[noreturn]] TENURE_COLD inline void throw_store_error(std::error_code why, char const* call,
                                                       any_store const& store) {
    raise(error(why, call + (" store " + store.describe())));
}

/// Throws `why` with the names of both stores, because either may have failed.
[[noreturn]] TENURE_COLD inline void throw_copy_error(std::error_code why, char const* call, any_store const& from,
                                                      any_store const& to) {
    raise(error(why, call + (" a buffer from store " + from.describe() + " to store " + to.describe())));
}

}  // namespace tenure::detail

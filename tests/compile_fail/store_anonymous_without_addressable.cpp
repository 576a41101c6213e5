// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
// error: traits[.]anonymous is set, but traits[.]addressable is not
#include "stores/half_store.hpp"

struct half : half_store::minimal {
#ifndef TENURE_COMPILES
    static constexpr half_store::store_traits traits{.anonymous = true};
#endif
};

tenure::any_store use(std::shared_ptr<half> s) { return s; }

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
// error: traits[.]copyable is set.*s[.]copy[(]b, n, b, n, n[)]
#include <tenure/store/conformance.hpp>

#include "stores/half_store.hpp"

struct half : half_store::minimal {
#ifndef TENURE_COMPILES
    static constexpr half_store::store_traits traits{.copyable = true};
#endif
};

bool use() {
    return tenure::check_store([] { return std::make_shared<half>(); }).ok();
}

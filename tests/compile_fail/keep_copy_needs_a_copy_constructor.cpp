// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
// error: keep_to need a copy constructor
#include <memory>

#include <tenure/tenure.hpp>

void use(tenure::batch_id cache, tenure::handle<std::unique_ptr<int>> only) {
    tenure::transfer_ownership(only, cache);
#ifndef TENURE_COMPILES
    tenure::keep_to(cache, only);
#endif
}

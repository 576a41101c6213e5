// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
// error: deleted
#include <utility>

#include <tenure/tenure.hpp>

void use() {
    tenure::batch_scope scope{{.name = "stays"}};
#ifndef TENURE_COMPILES
    tenure::batch_scope other{std::move(scope)};
#endif
}

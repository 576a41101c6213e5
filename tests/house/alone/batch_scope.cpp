// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/batch_scope.hpp>

int main() {
    tenure::batch_scope batch;
    auto const          made = batch.make<int>(1);
    batch.keep(made);
    return *made == 1 ? 0 : 1;
}

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/checkpoints.hpp>

int main() {
    tenure::batch_scope batch;
    auto const          number = batch.make<int>(1);
    batch.checkpoint();
    *number = 2;
    batch.rollback();
    return *number == 1 ? 0 : 1;
}

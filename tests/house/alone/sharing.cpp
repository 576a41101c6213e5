// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/sharing.hpp>

int main() {
    tenure::batch_scope batch;
    return *batch.make<int>(1) == 1 ? 0 : 1;
}

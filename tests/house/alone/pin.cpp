// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/pin.hpp>

int main() {
    tenure::batch_scope batch;
    auto const          pinned = tenure::pin(batch.make<int>(1));
    return *pinned == 1 ? 0 : 1;
}

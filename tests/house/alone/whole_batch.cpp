// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/whole_batch.hpp>

int main() {
    tenure::batch_scope batch;
    auto const          number = batch.make<int>(1);
    {
        tenure::batch_scope below;
        auto const          other = below.make<int>(2);
        below.keep_all();
        if (other.owner() != batch.id()) return 1;
    }
    batch.clear();
    return number.alive() ? 1 : 0;
}

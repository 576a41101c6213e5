// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/unique_owner.hpp>

int main() {
    tenure::unique_owner<int> mine;
    {
        tenure::batch_scope batch;
        mine = batch.detach(batch.make<int>(1));
    }
    return *mine == 1 ? 0 : 1;
}

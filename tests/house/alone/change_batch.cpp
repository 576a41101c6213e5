// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/change_batch.hpp>

int main() {
    tenure::batch_scope batch;
    batch.make<int>(1);
    batch.set_name("job");
    batch.set_limits({.hard = 1000});
    batch.set_timeout(tenure::no_timeout);
    batch.set_priority(1);
    return batch.try_make<char[]>(1000u) || batch.name() != "job" ? 1 : 0;
}

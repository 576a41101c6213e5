// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/budget.hpp>

int main() {
    tenure::memory_budget budget;
    {
        tenure::batch_scope job{{.name = "job", .reservation = budget.reserve({.kind = "job", .bytes = 1000})}};
        job.make<int>(1);
        if (budget.figures().reserved != 1000) return 1;
    }
    budget.set_capacity(2000);
    return budget.try_reserve({.kind = "more", .bytes = 3000}) || budget.figures().reserved ? 1 : 0;
}

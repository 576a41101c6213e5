// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/tenure.hpp>

int use(int n) {
    tenure::batch_scope outer;
    tenure::handle<int> kept;
    {
        tenure::batch_scope inner;
        kept = inner.keep(inner.make<int>(n));
    }
    return *kept;
}

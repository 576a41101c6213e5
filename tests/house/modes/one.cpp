// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/batch_scope.hpp>

#include "shared.hpp"

/// A handle is kept to a batch that another source opened, through a call from there.
int main() {
    tenure::batch_scope       above("above");
    tenure::handle<int> const h = kept_elsewhere(41);
    above.make<int>(1);
    return *h == 42 && h.owner() == above.id() ? 0 : 1;
}

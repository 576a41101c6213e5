// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/tenure.hpp>

#include "shared.hpp"

tenure::handle<int> kept_elsewhere(int n) {
    tenure::batch_scope       b;
    tenure::handle<int> const gone = tenure::make<int>(n);
    return b.keep(tenure::make<int>(*gone + 1));
}

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
// error: tenure::below\(parent\)
#include <tenure/tenure.hpp>

void use() {
    tenure::batch_scope b{"captured"};
#ifdef TENURE_COMPILES
    auto const f = [&b] { b.make<int>(1); };
#else
    auto const f = [b] { static_cast<void>(b); };
#endif
    f();
}

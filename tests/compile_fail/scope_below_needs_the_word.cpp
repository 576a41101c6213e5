// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
// error: tenure::below\(parent\)
#include <tenure/tenure.hpp>

void use() {
    tenure::batch_scope parent;
#ifdef TENURE_COMPILES
    tenure::batch_scope child{tenure::below(parent), {.name = "child"}};
#else
    tenure::batch_scope child{parent, {.name = "child"}};
#endif
}

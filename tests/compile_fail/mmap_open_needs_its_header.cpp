// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
// error: include <tenure/store/durable_mmap.hpp> for mmap_store::open
#include <tenure/store/mmap.hpp>

void use() {
    tenure::mmap_store scratch{"/tmp"};
#ifndef TENURE_COMPILES
    auto const s = tenure::mmap_store::open("/tmp");
#endif
}

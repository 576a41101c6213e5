// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/store/mmap.hpp>

int main() {
    tenure::mmap_store store("/tmp");
    auto const         block = store.allocate(4096, 4096);
    return block && store.deallocate({&*block, 1}) ? 0 : 1;
}

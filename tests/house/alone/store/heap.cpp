// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/store/heap.hpp>

int main() {
    tenure::heap_store store;
    auto const         block = store.allocate(64, 16);
    return block && store.deallocate({&*block, 1}) ? 0 : 1;
}

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <memory>

#include <tenure/store/aligned.hpp>
#include <tenure/store/heap.hpp>

int main() {
    tenure::aligned_store<tenure::heap_store> store(std::make_shared<tenure::heap_store>(), 4096);
    auto const                                block = store.allocate(64, 16);
    return block && store.deallocate({&*block, 1}) ? 0 : 1;
}

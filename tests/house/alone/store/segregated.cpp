// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <memory>

#include <tenure/store/heap.hpp>
#include <tenure/store/segregated.hpp>

int main() {
    using tenure::heap_store;
    tenure::segregated_store<heap_store, heap_store> store(std::make_shared<heap_store>(),
                                                           std::make_shared<heap_store>(), 64);
    auto const                                       block = store.allocate(65, 16);
    return block && store.address(*block) && store.deallocate({&*block, 1}) ? 0 : 1;
}

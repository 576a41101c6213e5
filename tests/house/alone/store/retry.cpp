// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <cstddef>
#include <memory>

#include <tenure/store/heap.hpp>
#include <tenure/store/retry.hpp>

int main() {
    tenure::retry_store<tenure::heap_store> store(std::make_shared<tenure::heap_store>(),
                                                  [](std::size_t) { return false; });
    auto const                              block = store.allocate(64, 16);
    return block && store.deallocate({&*block, 1}) ? 0 : 1;
}

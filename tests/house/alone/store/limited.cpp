// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <memory>

#include <tenure/store/heap.hpp>
#include <tenure/store/limited.hpp>

int main() {
    tenure::limited_store<tenure::heap_store> store(std::make_shared<tenure::heap_store>(), {.bytes = 64});
    return store.allocate(65, 16) ? 1 : 0;
}

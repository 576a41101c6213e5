// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/fleet.hpp>

#include <memory>

#include <tenure/store/heap.hpp>

int main() {
    tenure::store_group fleet;
    for (char const* const name : {"a", "b"})
        fleet.add(name, std::make_shared<tenure::heap_store>(), {.capacity = 1 << 20});
    tenure::memory_manager manager(fleet, {.policies = {tenure::keep_replicas(2), tenure::rebalance{}}});
    tenure::any_store      one  = fleet["a"];
    tenure::block const    made = one.allocate(100, 8).value();
    return manager.run_once().copied == 1 && fleet.stores()[1].copies == 1 && one.deallocate({&made, 1}) ? 0 : 1;
}

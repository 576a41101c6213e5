// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// registry_options::memory_limit where nobody makes anything: who comes back, and who leaves, keeps to it, too.

#include <cstddef>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;

/// A registry with a limit of 1 MiB, and 40 batches of 64 KiB each.
struct crowd {
    tenure::registry              in;
    std::vector<tenure::batch_id> ids;

    crowd() : in({.memory_limit = {.high = MiB}}) {
        for (int i = 0; i < 40; ++i) {
            tenure::batch_scope b(in, {.residency = tenure::residency::automatic});
            b.make<int>(i);
            ids.push_back(b.detach());
        }
    }
    ~crowd() {
        for (auto const id : ids) in.end_batch(id);
        CHECK(in.snapshot().paging.reserved == 0);
    }
    crowd(crowd const&)            = delete;
    crowd& operator=(crowd const&) = delete;

    std::size_t in_use() const { return in.usage().held - in.snapshot().paging.out; }
};

}  // namespace

TEST_CASE("who comes back makes others go") {
    crowd c;
    CHECK(c.in_use() <= MiB);
    for (int turn = 0; turn < 3; ++turn) {
        for (auto const id : c.ids) {
            auto const inside = c.in.enter(id);
            CHECK(c.in.usage(id).paged_out == 0);
            CHECK(c.in_use() <= MiB);
        }
    }
    for (auto const id : c.ids) {
        c.in.page_in(id);
        CHECK(c.in_use() <= MiB);
    }
}

TEST_CASE("what was too much while it was entered goes out when it is left") {
    crowd c;
    {
        std::vector<std::unique_ptr<tenure::entered>> inside;
        for (auto const id : c.ids) inside.emplace_back(new tenure::entered(c.in.enter(id)));
        CHECK(c.in_use() >= 40 * 64 * 1024);  // nothing could go
        while (!inside.empty()) inside.pop_back();
    }
    CHECK(c.in_use() <= MiB);
}

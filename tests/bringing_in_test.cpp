// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Batches of which most changes each time they come in: these come all at once, and what changed is found by
// looking.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <tenure/detail/paging/page_moves.hpp>
#include <tenure/tenure.hpp>

using tenure::batch_id;
using tenure::handle;
using tenure::registry;

namespace {

constexpr std::size_t page = 4096, MiB = std::size_t{1} << 20;

/// A batch of arrays that is changed in every page, often enough to be known for it.
struct changing {
    registry&                            r;
    batch_id                             id;
    std::vector<handle<std::uint64_t[]>> arrays;
    std::uint64_t                        turn = 0;

    changing(registry& in, std::size_t count, std::size_t bytes) : r(in), id(r.new_batch()) {
        {
            auto const inside = r.enter(id);
            for (std::size_t i = 0; i < count; ++i) arrays.push_back(tenure::make<std::uint64_t[]>(bytes / 8));
            fill();
        }
        for (int i = 0; i < 2; ++i) {
            r.page_out(id);
            change();
        }
        r.page_out(id);
    }
    ~changing() { r.end_batch(id); }
    changing(changing const&)            = delete;
    changing& operator=(changing const&) = delete;

    void fill() {
        ++turn;
        for (auto const& a : arrays)
            for (std::size_t i = 0; i < a.size(); ++i) a[i] = turn << 32 | i;
    }
    void change() {
        auto const inside = r.enter(id);
        fill();
    }
    bool whole() const {
        std::size_t wrong = 0;
        for (auto const& a : arrays)
            for (std::size_t i = 0; i < a.size(); ++i) wrong += a[i] != (turn << 32 | i);
        return wrong == 0;
    }
    std::size_t bytes() const { return arrays.size() * arrays[0].size() * 8; }
};

std::uint64_t written(registry const& r) { return r.snapshot().paging.written; }

}  // namespace

TEST_CASE("what did not change is not written again") {
    for (std::size_t const bytes : {MiB / 4, 8 * MiB}) {
        registry   r;
        changing   c(r, 3, bytes);
        auto const before = written(r);
        {
            auto const inside = r.enter(c.id);
            CHECK(c.whole());
        }
        r.page_out(c.id);
        CHECK(written(r) == before);
        CHECK(c.whole());

        c.change();
        r.page_out(c.id);
        CHECK(written(r) >= before + c.bytes());
        c.change();
        r.page_out(c.id);
        auto const again = written(r);
        {
            auto const inside = r.enter(c.id);
            c.arrays[1][0]    = 0;
            c.arrays[1][5]    = 0;
        }
        r.page_out(c.id);
        CHECK(written(r) == again + page);
        CHECK(c.arrays[1][0] == 0);
        c.arrays[1][0] = c.turn << 32;
        c.arrays[1][5] = c.turn << 32 | 5;
        CHECK(c.whole());
    }
}

TEST_CASE("one page that changed is no reason to bring in all of them at once") {
    registry                r;
    batch_id const          id = r.new_batch();
    handle<std::uint64_t[]> a;
    {
        auto const inside = r.enter(id);
        a                 = tenure::make<std::uint64_t[]>(2 * MiB / 8);
        for (std::size_t i = 0; i < a.size(); ++i) a[i] = i;
    }
    r.page_out(id);
    {
        auto const inside = r.enter(id);
        a[0]              = 7;
    }
    r.page_out(id);
    auto const  inside = r.enter(id);
    auto const  begin  = (tenure::detail::to_address(&a[0]) + page) & ~(page - 1);
    std::size_t copied = 0;
    int const   maps   = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    REQUIRE(maps >= 0);
    tenure::detail::for_private_pages(maps, begin, begin + MiB, [&](std::uintptr_t from, std::uintptr_t to) {
        copied += (to - from) / page;
        return true;
    });
    ::close(maps);
    CHECK(copied == 0);
    CHECK(a[0] == 7);
    CHECK(a[a.size() - 1] == a.size() - 1);
    r.end_batch(id);
}

TEST_CASE("all changes, many times, and nothing is lost") {
    registry r;
    changing c(r, 5, 3 * MiB);
    for (int i = 0; i < 6; ++i) {
        c.change();
        CHECK(c.whole());
        r.page_out(c.id);
        CHECK(r.usage(c.id).paged_out >= c.bytes());
        CHECK(c.whole());  // nobody inside
        if (i % 2) r.page_in(c.id);
        CHECK(c.whole());
    }
}

TEST_CASE("what is another's by then goes its own way") {
    registry r;
    {
        changing   a(r, 6, 2 * MiB);
        auto const b = r.new_batch();
        {
            auto const inside = r.enter(a.id);  // in huge pages
            CHECK(a.whole());
            r.transfer_ownership(a.arrays[3], b);
        }
        r.page_out(b);
        r.page_out(a.id);
        r.page_out(b);
        CHECK(a.whole());
        r.transfer_ownership(a.arrays[2], b);  // out, and back into memory by that
        r.page_out(b);
        a.change();
        r.page_out(b);
        r.page_out(a.id);
        CHECK(a.whole());
        r.transfer_ownership(a.arrays[3], a.id);
        r.page_out(a.id);
        r.page_out(b);
        CHECK(a.whole());
        r.end_batch(b);
        CHECK(!a.arrays[2].alive());
        a.arrays.erase(a.arrays.begin() + 2);
        CHECK(a.whole());
    }
    CHECK(r.snapshot().paging.reserved == 0);
    CHECK(r.snapshot().paging.out == 0);
}

TEST_CASE("a batch that ends while it is in, and one that ends while it is out") {
    registry r;
    for (bool const in : {true, false}) {
        changing   c(r, 2, 4 * MiB);
        auto const other = r.new_batch();
        if (in) c.change();
        r.transfer_ownership(c.arrays[0], other);
        r.end_batch(c.id);
        CHECK(!c.arrays[1].alive());
        c.arrays.pop_back();
        CHECK(c.whole());
        r.end_batch(other);
        CHECK(r.snapshot().paging.reserved == 0);
    }
    tenure::batch_scope b(r);  // on the same addresses
    auto const          a   = b.make<std::uint64_t[]>(MiB);
    std::uint64_t       sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i];
    CHECK(sum == 0);
}

TEST_CASE("in the mode that faults") {
    registry r({.access = tenure::paged_access::faults});
    changing c(r, 3, 3 * MiB);
    for (int i = 0; i < 3; ++i) {
        c.change();
        CHECK(c.whole());
        r.page_out(c.id);
    }
    auto const inside = r.enter(c.id);
    CHECK(c.whole());
}

TEST_CASE("who writes while it comes and goes loses nothing") {
    registry            r;
    changing            c(r, 2, 4 * MiB);
    std::atomic<bool>   stop{false};
    auto                word    = std::atomic_ref<std::uint64_t>(c.arrays[1][77]);
    std::uint64_t const began   = word.load();
    std::uint64_t       counted = 0;
    std::thread         other([&] {
        while (!stop.load(std::memory_order_relaxed)) {
            word.fetch_add(1, std::memory_order_relaxed);
            ++counted;
        }
    });
    for (int i = 0; i < (TENURE_SANITIZED ? 20 : 100); ++i) {
        {
            auto const inside = r.enter(c.id);
            for (std::size_t k = 0; k < c.arrays[0].size(); k += page / 8) ++c.arrays[0][k];
            for (std::size_t k = 0; k < c.arrays[1].size(); k += page / 8) ++c.arrays[1][k];
        }
        r.page_out(c.id);
    }
    stop = true;
    other.join();
    CHECK(word.load() - began == counted);
}

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Batches with buffers in a store that knows blocks by batch: what it is told, and what comes of it when it cannot
// be.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "stores/lab_store.hpp"

using tenure::batch_id;
using tenure::batch_scope;
using tenure::block;
using tenure::buffer;
using tenure::errc;
using tenure::registry;
using tenure::result;

namespace {

/// Writes down what it is told.
class told_store : public named_store<{.batched = true}> {
    using base = named_store<{.batched = true}>;

public:
    told_store() : base("told") {}

    result<void> deallocate(std::span<block const> many) noexcept {
        ++frees;
        return base::deallocate(many);
    }
    result<void> transfer(std::span<block const> many, std::uint64_t batch) {
        ++transfers;
        if (slow) std::this_thread::yield();
        if (fails > 0 && fails-- > 0) return make_error_code(errc::timed_out);
        return base::transfer(many, batch);
    }
    result<void> deallocate_batch(std::uint64_t batch, std::span<block const> many) noexcept {
        ++ends;
        if (ends_fail > 0 && ends_fail-- > 0) return make_error_code(errc::timed_out);
        {
            std::scoped_lock const guard(lock_);
            std::size_t            in = 0;
            for (auto const& [id, x] : live_) in += x.batch == batch;
            if (in != many.size()) ++different;
        }
        return base::deallocate_batch(batch, many);
    }

    std::uint64_t batch_of(block b) const {
        std::scoped_lock const guard(lock_);
        return live_.at(b.id).batch;
    }

    std::atomic<int>  frees{0}, transfers{0}, ends{0}, fails{0}, ends_fail{0};
    std::atomic<int>  different{0};  ///< ends of which it knew other blocks than the caller
    std::atomic<bool> slow{false};
};

static_assert(tenure::backing_store<told_store>);

}  // namespace

TEST_CASE("the end of a batch is one call that names it") {
    auto const store = std::make_shared<told_store>();
    registry   r;
    {
        batch_scope b(r, {.store = store});
        for (int i = 0; i < 1000; ++i) CHECK(store->batch_of(b.make_buffer<int>(10).block()) == b.id().value);
        batch_scope empty{tenure::below(b)};
    }
    CHECK(store->ends == 1);
    CHECK(store->frees == 0);
    CHECK(store->different == 0);
    CHECK(store->usage().blocks == 0);
}

TEST_CASE("a keep is one call, however many buffers and levels") {
    auto const store = std::make_shared<told_store>();
    registry   r;
    {
        batch_scope              outer(r, {.store = store});
        std::vector<buffer<int>> kept;
        {
            batch_scope middle{tenure::below(outer)};
            {
                batch_scope inner{tenure::below(middle)};
                for (int i = 0; i < 100; ++i) kept.push_back(inner.make_buffer<int>(10));
                inner.make_buffer<int>(7);
                inner.keep(kept);
                CHECK(store->transfers == 1);
                CHECK(store->batch_of(kept[99].block()) == middle.id().value);
            }
            CHECK(store->usage().blocks == 100);
            middle.keep(kept[0], kept[1]);
            CHECK(store->transfers == 2);
        }
        CHECK(store->usage().blocks == 2);
        CHECK(store->batch_of(kept[1].block()) == outer.id().value);
        kept[0].write(0, std::vector{1, 2, 3});
        batch_id const other = r.new_batch({.store = store});
        r.transfer_ownership(kept[0], other);
        r.free(kept[1]);
        CHECK(store->frees == 1);
        CHECK(store->batch_of(kept[0].block()) == other.value);
        r.end_batch(other);
        CHECK(store->usage().blocks == 0);
    }
    CHECK(store->different == 0);
}

TEST_CASE("what goes with all of its batch is not told, and the ends name their blocks") {
    auto const  store = std::make_shared<told_store>();
    registry    r;
    batch_scope outer(r);
    {
        batch_scope b(r, {.store = store});
        auto const  x = b.make_buffer<int>(10);
        b.keep_all();
        CHECK(x.owner() == outer.id());
        b.make_buffer<int>(10);
    }
    CHECK(store->usage().blocks == 1);
    CHECK(store->transfers == 0);
    outer.end();
    CHECK(store->usage().blocks == 0);
    CHECK(store->frees == 2);
}

TEST_CASE("what is shared is told once, whoever comes to share it, and ends with one call") {
    auto const     store = std::make_shared<told_store>();
    registry       r;
    batch_id const ids[]{r.new_batch(), r.new_batch(), r.new_batch()};
    buffer<int>    x, d;
    {
        batch_scope b(r, {.store = store});
        x = b.make_buffer<int>(10);
        b.broadcast(x, ids);
        CHECK(store->transfers == 1);
        CHECK(store->batch_of(x.block()) == x.owner().value);
        d = tenure::make_derived<int>(10, [](std::span<int> out, auto...) { out[0] = 1; }, x);
        CHECK(store->batch_of(d.block()) == b.id().value);
        tenure::evict(d);
        CHECK(store->frees == 1);
        b.share(d, ids[0]);
        CHECK(store->transfers == 1);  // there is nothing to tell of
        CHECK(store->batch_of(d.block()) == d.owner().value);
    }
    CHECK(store->usage().blocks == 2);
    for (batch_id const id : ids) r.end_batch(id);
    CHECK(store->usage().blocks == 0);
    CHECK(store->frees == 1);
    CHECK(store->different == 0);
}

TEST_CASE("what moves to such a store is in its batch there") {
    auto const  store = std::make_shared<told_store>();
    registry    r;
    batch_scope b(r);
    auto const  x = b.make_buffer<int>(10);
    x.move_to(store);
    CHECK(store->batch_of(x.block()) == b.id().value);
}

TEST_CASE("a store that cannot be told: the keep holds, and the ends name their blocks") {
    auto const store = std::make_shared<told_store>();
    registry   r;
    {
        batch_scope outer(r, {.store = store});
        buffer<int> kept;
        {
            batch_scope inner{tenure::below(outer)};
            kept = inner.make_buffer<int>(10);
            inner.make_buffer<int>(10);
            store->fails = 1;
            inner.keep(kept);
            CHECK(store->batch_of(kept.block()) == inner.id().value);
        }
        CHECK(store->ends == 0);
        CHECK(store->usage().blocks == 1);
        CHECK_NOTHROW(kept.write(0, std::vector{1}));
    }
    CHECK(store->ends == 0);
    CHECK(store->frees == 2);
    CHECK(store->usage().blocks == 0);
}

TEST_CASE("an end that the store does not hear of is told again, block by block") {
    auto const store = std::make_shared<told_store>();
    registry   r;
    {
        batch_scope b(r, {.store = store});
        b.make_buffer<int>(10);
        store->ends_fail  = 1;
        auto const report = b.end();
        CHECK(report.store_errors == 1);
        CHECK(report.store_error == errc::timed_out);
    }
    CHECK(store->usage().blocks == 1);
    batch_scope other(r, {.store = store});
    other.make_buffer<int>(1);
    other.end();
    CHECK(store->usage().blocks == 0);
}

TEST_CASE("threads that give one another's buffers away: nothing is freed early, and nothing is left") {
    constexpr int            threads = 4, slots = 8, buffers = 16, turns = TENURE_SANITIZED ? 300 : 3000;
    auto const               store = std::make_shared<told_store>();
    registry                 r;
    std::mutex               lock;
    std::vector<batch_id>    ids;
    std::vector<buffer<int>> all(buffers);
    store->slow = true;
    for (int i = 0; i < slots; ++i) ids.push_back(r.new_batch({.store = store}));

    auto const work = [&](unsigned seed) {
        std::mt19937 dice(seed);
        for (int turn = 0; turn < turns; ++turn) {
            std::unique_lock guard(lock);
            batch_id&        slot = ids[dice() % slots];
            batch_id const   id   = slot;
            buffer<int>&     x    = all[dice() % buffers];
            buffer<int>      mine = x;
            unsigned const   what = dice() % 16;
            if (what == 0) {
                slot = r.new_batch({.store = store});
                guard.unlock();
                r.end_batch(id);
                continue;
            }
            if (!mine.alive()) {
                auto const inside = r.enter(id);
                x                 = tenure::make_buffer<int>(4);
                continue;
            }
            guard.unlock();
            if (what == 1) store->fails = 1;
            try {
                r.transfer_ownership(mine, id);
            } catch (tenure::error const& e) {
                if (e.code() != errc::stale_handle && e.code() != errc::batch_ended) throw;
            }
            batch_scope reader(r);
            if (!reader.try_borrow(mine)) continue;
            std::vector<int> four(4);
            if (!mine.try_read(0, four)) throw std::runtime_error("a borrowed buffer has no block");
        }
    };
    std::vector<std::thread> crowd;
    for (unsigned t = 0; t < threads; ++t) crowd.emplace_back(work, t + 1);
    for (auto& t : crowd) t.join();
    for (batch_id const id : ids) r.end_batch(id);
    CHECK(store->usage().blocks == 0);
    CHECK(store->transfers > 0);
    CHECK(store->ends > 0);
    CHECK(stores_error(r, store) == "");
}

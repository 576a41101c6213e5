// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Batches whose store a scheduler picks: real ones, on stores that stand for devices.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/device/scheduler.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/tenure.hpp>

#include "stores/lab_store.hpp"
#include "throws.hpp"

namespace {

using namespace tenure;

using remote = lab_store<{.copyable = true}>;  ///< as a device is: no address here, and it copies by itself

std::shared_ptr<remote> make_remote(std::string name, std::size_t bytes) {
    return make_lab<remote::traits>(std::move(name), bytes);
}

/// Two devices of 1000 bytes.
struct lab {
    registry r;

    std::shared_ptr<remote> a = make_remote("device a", 1000), b = make_remote("device b", 1000);

    using scheduler              = memory_aware<store_memory>;
    std::shared_ptr<scheduler> s = std::make_shared<scheduler>(store_memory({a, b}));
    device_pool<scheduler>     pool{s, a, b};

    device_figures figures(std::size_t d) {
        s->refresh();
        return s->figures().devices.at(d);
    }
};

static_assert(backing_store<placed_store<remote>> && placed_store<remote>::traits.copyable);
static_assert(backing_store<placed_store<heap_store>> && placed_store<heap_store>::traits.anonymous);

}  // namespace

TEST_CASE_FIXTURE(lab, "a batch's buffers go where the scheduler says, and stay together") {
    batch_scope first(r, {.name = "first", .store = pool.place({.kind = "train", .bytes = 600})});
    batch_scope second(r, {.name = "second", .store = pool.place({.kind = "train", .bytes = 600})});
    auto const  x = first.make_buffer<char>(100);
    auto const  y = second.make_buffer<char>(200);
    {
        batch_scope below{tenure::below(first)};
        batch_scope lowest{tenure::below(below)};
        auto const  from = lowest.make_buffer<char>(100), to = below.make_buffer<char>(100);
        CHECK(a->usage().bytes == 300);
        CHECK(b->usage().bytes == 200);
        from.write(0, std::vector<char>(100, 'x'));
        from.copy_to(to);
        CHECK(a->calls(store_operation::copy) == 1);  // within the device
        std::vector<char> out(100);
        to.read(0, out);
        CHECK(out == std::vector<char>(100, 'x'));
    }
    CHECK(a->usage().bytes == 100);
    for (store_info const& in : r.snapshot().stores)
        if (in.buffers > 0) CHECK(in.name.starts_with("job train in "));
    CHECK(x.size() + y.size() == 300);
}

TEST_CASE_FIXTURE(lab, "what is not allocated yet is reserved, and the end gives it back") {
    {
        batch_scope job(r, {.store = pool.place({.kind = "train", .bytes = 600})});
        CHECK(figures(0).reserved == 600);
        CHECK(figures(0).available == 400);
        auto const x = job.make_buffer<char>(500);
        CHECK(figures(0).free == 500);
        CHECK(figures(0).reserved == 100);
        CHECK(figures(0).available == 400);
        job.free(x);
        CHECK(figures(0).reserved == 600);
    }
    CHECK(figures(0).reserved == 0);
    CHECK(figures(0).jobs == 0);
    CHECK(figures(0).available == 1000);
    CHECK(a.use_count() == 3);  // here, with the source, in the pool, and in no job
}

TEST_CASE_FIXTURE(lab, "the peak of the whole tree is what its kind learns, when the last of it is gone") {
    buffer<char> kept;
    {
        batch_scope outer(r);
        {
            batch_scope job(tenure::below(outer), {.store = pool.place({.kind = "train", .bytes = 100})});
            {
                batch_scope below{tenure::below(job)};
                below.make_buffer<char>(250);
                CHECK(s->estimate("train") == 175);  // it is more than was declared, and shows at once
            }
            {
                batch_scope below{tenure::below(job)};
                below.make_buffer<char>(200);
                kept = below.make_buffer<char>(100);
                below.keep(kept);
            }
            job.keep(kept);
        }
        CHECK(kept.alive());
        CHECK(figures(0).jobs == 1);  // it has a buffer yet
        CHECK(s->figures().kinds.at(0).observed == 0);
    }
    CHECK(figures(0).jobs == 0);
    CHECK(s->figures().kinds.at(0).observed == 1);
    CHECK(s->estimate("train") == 200);  // (100 + 300) / 2
    CHECK(s->estimate("evaluate") == 0);
}

TEST_CASE_FIXTURE(lab, "nothing fits: store_full, with what to do, and nothing has changed") {
    auto const before = s->figures().to_text();
    check_throws(errc::store_full,
                 {"kind \"train\"", "declares 1001 bytes", "end a batch, wait, or declare less",
                  "device 1: 1000 of 1000 bytes free, 0 reserved, 0 jobs; 1000 available"},
                 [&] { std::ignore = pool.place({.kind = "train", .bytes = 1001}); });
    CHECK(pool.try_place({.kind = "train", .bytes = 1001}).error() == errc::store_full);
    CHECK(pool.try_place({.kind = "train", .bytes = 1000}).value().capabilities().copyable);
    s->refresh();
    CHECK(s->figures().kinds.at(0).observed == 0);  // it was over before it used anything
    CHECK(before.empty());                          // nothing had been read
}

TEST_CASE_FIXTURE(lab, "a device that has no store: device_unavailable, and no job is left there") {
    device_pool<scheduler> half(s, a);
    any_store const        first = half.place({.kind = "train", .bytes = 600});
    check_throws(errc::device_unavailable, {"on device 1, which has no store here: set_store()"},
                 [&] { std::ignore = half.place({.kind = "train", .bytes = 600}); });
    CHECK(half.try_place({.kind = "train", .bytes = 600}).error() == errc::device_unavailable);
    CHECK(figures(1).jobs == 0);
    half.set_store({1}, b);
    CHECK(half.try_place({.kind = "train", .bytes = 600}).has_value());
}

TEST_CASE_FIXTURE(lab, "jobs that use more than they declare are placed with more room the next time") {
    for (int round = 0; round < 3; ++round) {
        batch_scope job(r, {.store = pool.place({.kind = "train", .bytes = 10})});
        job.make_buffer<char>(600);
    }
    batch_scope one(r, {.store = pool.place({.kind = "train", .bytes = 10})});
    batch_scope other(r, {.store = pool.place({.kind = "train", .bytes = 10})});
    CHECK(figures(0).reserved == 453);  // (10 + 3 * 600) / 4
    CHECK(figures(1).reserved == 453);
    other.make_buffer<char>(600);
    CHECK(b->usage().bytes == 600);
    CHECK(pool.try_place({.kind = "train"}).value().usage().bytes == 0);  // on the first one
}

TEST_CASE("buffers can be mapped and objects made where the device's store has addresses") {
    registry    r;
    auto const  near = std::make_shared<heap_store>();
    device_pool pool(std::make_shared<round_robin>(std::initializer_list<device_id>{{0}}), near);
    batch_scope job(r, {.store = pool.place({})});
    auto const  x = job.make_buffer<int>(10);
    x.map()[3]    = 7;
    std::vector<int> out(10);
    x.read(0, out);
    CHECK(out[3] == 7);
    CHECK(*job.make<int>(3) == 3);
    CHECK(near->usage().blocks > 1);
}

TEST_CASE("any scheduler will do, and any stores: round robin over different ones") {
    registry    r;
    auto const  near = make_remote("near", 1 << 20);
    auto const  far  = std::make_shared<lab_store<>>(std::make_shared<named_store<>>("far"));
    auto const  turn = std::make_shared<round_robin>(std::initializer_list<device_id>{{0}, {1}});
    device_pool pool(turn, near, far);
    CHECK(pool.scheduler() == turn);
    for (int i = 0; i < 3; ++i) {
        batch_scope one(r, {.store = pool.place({})}), two(r, {.store = pool.place({})});
        one.make_buffer<char>(100);
        two.make_buffer<char>(10);
        CHECK(near->usage().bytes == 100);
        CHECK(far->usage().bytes == 10);
    }
    turn->set_devices({});
    check_throws(errc::store_full, {"no device is fit"}, [&] { std::ignore = pool.place({}); });
}

TEST_CASE("host memory where there is no device") {
    registry    r;
    auto const  s    = std::make_shared<memory_aware<store_memory>>(store_memory({}),
                                                                    memory_aware_options{.host_if_no_device = true});
    auto const  host = std::make_shared<heap_store>();
    device_pool pool(s);
    pool.set_store(host_memory, host);
    batch_scope job(r, {.store = pool.place({.kind = "train", .bytes = 1 << 30})});
    job.make_buffer<char>(1000);
    std::size_t const used = host->usage().bytes;
    CHECK(used >= 1000);  // and room for objects, for it has addresses
    job.end();
    CHECK(s->estimate("train") == (1u << 29) + used / 2);
}

TEST_CASE("a placed store counts what it allocated, and nothing else") {
    auto const   base = make_remote("device", 1000);
    auto const   m    = std::make_shared<job_meter>();
    placed_store s(base, m, "train");
    block const  other = base->allocate(300, 1).value();
    block const  own   = s.allocate(200, 1).value();
    CHECK(s.allocate(600, 1).error() == errc::store_full);
    CHECK(m->used() == 200);
    CHECK(s.usage().bytes == 500);
    CHECK(s.deallocate(std::vector{own, own, other}).error() == errc::no_such_block);
    CHECK(m->used() == 0);
    base->inject({.on = store_operation::deallocate, .how = faults::shortens{.to = 1}});
    std::vector<block> const live{s.allocate(1, 1).value(), s.allocate(2, 1).value()};
    CHECK_FALSE(s.deallocate(live));
    CHECK(m->used() == 2);
    CHECK_FALSE(s.deallocate(live));
    CHECK(m->used() == 0);
    CHECK(m->peak() == 200);
    CHECK(s.describe() == "job train in " + base->describe());
    CHECK_FALSE(s.meter().ended());
}

TEST_CASE("jobs that share a store which knows batches do not end each other's") {
    using knowing     = plain_store<{.batched = true}>;
    auto const   base = std::make_shared<knowing>();
    auto const   m    = std::make_shared<job_meter>();
    placed_store one(base, m, "one"), other(base, std::make_shared<job_meter>(), "other");
    static_assert(backing_store<decltype(one)> && decltype(one)::traits.batched);
    block const own = base->allocate_in(7, 1, 1).value(), a = one.allocate_in(7, 10, 1).value(),
                b = one.allocate_in(7, 20, 1).value(), c = other.allocate_in(7, 40, 1).value();
    CHECK(one.transfer({&b, 1}, 8));
    CHECK(one.deallocate_batch(7, {&a, 1}));
    CHECK(base->usage().bytes == 61);
    CHECK(m->used() == 20);
    CHECK(one.deallocate_batch(7, {}));
    CHECK(one.deallocate_batch(8, {&b, 1}));
    CHECK(other.deallocate_batch(7, {&c, 1}));
    CHECK(base->usage().bytes == 1);
    CHECK(m->used() == 0);
    CHECK(base->deallocate_batch(7, {&own, 1}));

    registry    r;
    device_pool pool(std::make_shared<round_robin>(std::initializer_list<device_id>{{0}}), base);
    {
        batch_scope  outer(r, {.store = pool.place({.kind = "train"})});
        buffer<char> kept;
        {
            batch_scope inner{tenure::below(outer)};
            kept = inner.make_buffer<char>(100);
            inner.make_buffer<char>(10, pool.place({.kind = "train"}));
            CHECK(base->usage().bytes == 110);
            inner.keep(kept);
        }
        CHECK(kept.alive());
        CHECK(base->usage().bytes == 100);
    }
    CHECK(base->usage().bytes == 0);
}

TEST_CASE("what is about to be given back is not used any more, and may be wanted again") {
    job_meter m;
    m.add(100);
    m.begin_return(30);
    CHECK(m.used() == 70);
    m.begin_return(500);  // of which most was never the job's
    CHECK(m.used() == 0);
    m.end_return(500, 20);
    CHECK(m.used() == 50);
    m.end_return(30, 30);
    CHECK(m.used() == 50);
    CHECK(m.peak() == 100);
}

TEST_CASE("what the registry did with it leaves the books of all stores even") {
    lab                    l;
    batch_scope            job(l.r, {.store = l.pool.place({.kind = "train", .bytes = 300})});
    std::vector<any_store> none;
    auto const             x = job.make_buffer<char>(100);
    batch_scope            other(l.r, {.store = l.pool.place({.kind = "train", .bytes = 300})});
    x.move_to(other.make_buffer<char>(1).stores().at(0));
    CHECK(l.a->usage().bytes == 0);
    CHECK(l.b->usage().bytes == 101);
    CHECK(l.figures(0).reserved == 300);
    CHECK(l.figures(1).reserved == 199);
}

TEST_CASE("threads that place, fill and end batches at once, each within what there is") {
    constexpr int rounds = TENURE_SANITIZED ? 50 : 500;
    auto const    a = make_remote("a", 1 << 20), b = make_remote("b", 1 << 20);
    registry      r;
    auto const    s = std::make_shared<memory_aware<store_memory>>(store_memory({a, b}));
    device_pool   pool(s, a, b);
    {
        std::vector<std::jthread> threads;
        for (int t = 0; t < 4; ++t)
            threads.emplace_back([&] {
                for (int i = 0; i < rounds; ++i) {
                    auto const where = pool.try_place({.kind = "train", .bytes = 300 << 10});
                    if (!where) continue;
                    batch_scope job(r, {.store = *where});
                    for (int k = 0; k < 3; ++k) job.make_buffer<char>(100 << 10);  // throws where it does not fit
                }
            });
    }
    CHECK(a->usage().bytes + b->usage().bytes == 0);
    s->refresh();
    for (device_figures const& d : s->figures().devices) {
        CHECK(d.jobs == 0);
        CHECK(d.available == 1 << 20);
    }
    CHECK(s->estimate("train") == 300 << 10);
}

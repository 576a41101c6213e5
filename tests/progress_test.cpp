// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// How far a job is, and what it waited for: batch_scope::progress, and what snapshots and saves say of it.

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <tenure/budget.hpp>
#include <tenure/detail/batch/progress.hpp>
#include <tenure/json.hpp>
#include <tenure/save.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "temporary.hpp"
#include "throws.hpp"

namespace {

using namespace std::chrono_literals;
using tenure::batch_id;
using tenure::batch_info;
using tenure::batch_scope;
using tenure::errc;
using tenure::registry;
using tenure::detail::progress_meter;

constexpr std::uint64_t second = 1'000'000'000;

/// What a snapshot says of one batch.
batch_info look(registry& r, batch_id id) {
    for (batch_info const& b : r.snapshot().batches)
        if (b.id == id) return b;
    FAIL("no batch " << id.value);
    return {};
}

/// Memory of this process that has no address, and takes its time.
class far_store {
public:
    static constexpr tenure::store_traits traits{};

    tenure::result<tenure::block> allocate(std::size_t bytes, std::size_t alignment) {
        return near_->allocate(bytes, alignment);
    }
    tenure::result<void> deallocate(std::span<tenure::block const> many) noexcept {
        return near_->deallocate(many);
    }
    tenure::result<void> read(tenure::block b, std::size_t at, std::span<std::byte> out) {
        std::this_thread::sleep_for(10ms);
        return near_->read(b, at, out);
    }
    tenure::result<void> write(tenure::block b, std::size_t at, std::span<std::byte const> in) {
        return near_->write(b, at, in);
    }
    tenure::store_usage usage() const noexcept { return near_->usage(); }

private:
    std::shared_ptr<tenure::heap_store> near_ = std::make_shared<tenure::heap_store>();
};

/// A thread that wakes who waits for room, by giving its own back after a while.
std::jthread give_back_after(tenure::reservation& room, std::chrono::milliseconds t) {
    return std::jthread([&room, t] {
        std::this_thread::sleep_for(t);
        room.release();
    });
}

/// A budget of 100 MiB that only reservations count for.
tenure::budget_options of_100_mib() {
    tenure::budget_options o{.capacity = 100u << 20};
    o.in_use = [] { return tenure::memory_use{}; };
    return o;
}

}  // namespace

TEST_CASE("a meter tells the rate of late, and the time left") {
    progress_meter m;
    CHECK(!m.has_said());
    m.note(0, 1'000, 5 * second);
    CHECK(m.rate() == 0);
    CHECK(m.left() == tenure::no_timeout);
    for (std::uint64_t s = 1; s <= 50; ++s) m.note(s * 10, 1'000, (5 + s) * second);
    CHECK(m.rate() == doctest::Approx(10));
    CHECK(m.left() == 50s);

    SUBCASE("a job that gets slower") {
        for (std::uint64_t s = 1; s <= 40; ++s) m.note(500 + s, 1'000, (55 + s) * second);
        CHECK(m.rate() == doctest::Approx(1));
        CHECK(m.left() == 460s);
    }
    SUBCASE("one long step") {
        m.note(510, 1'000, 58 * second);  // 3 s for what took one
        CHECK(m.rate() > 7);
    }
    SUBCASE("all is done, or more") {
        m.note(1'000, 1'000, 60 * second);
        CHECK(m.left() == 0ns);
        m.note(1'001, 1'000, 61 * second);
        CHECK(m.left() == 0ns);
    }
    SUBCASE("nobody knows of how much") {
        m.note(600, 0, 60 * second);
        CHECK(m.rate() > 0);
        CHECK(m.left() == tenure::no_timeout);
    }
    SUBCASE("it begins again") {
        m.note(0, 1'000, 60 * second);
        CHECK(m.rate() == 0);
        m.note(3, 1'000, 61 * second);
        CHECK(m.rate() == doctest::Approx(3));
    }
    SUBCASE("figures that no clock has") {
        m.note(~std::uint64_t{0}, ~std::uint64_t{0}, 60 * second);
        m.note(0, ~std::uint64_t{0}, 60 * second);
        m.note(1, ~std::uint64_t{0}, 70 * second);
        CHECK(m.left() == tenure::no_timeout);  // more years than fit
    }
}

TEST_CASE("a meter goes on where another one was") {
    progress_meter m;
    m.go_on({.done = 400, .total = 1'000, .elapsed = 40 * second}, 7 * second);
    CHECK(m.done() == 400);
    CHECK(m.rate() == 0);
    CHECK(m.before() == 40 * second);
    m.note(420, 1'000, 8 * second);
    CHECK(m.rate() == doctest::Approx(20));  // and not 420 in a second
}

TEST_CASE("a snapshot says how far a job is") {
    accounting const books;
    registry&        r = registry::global();
    batch_scope      job("job");
    CHECK(look(r, job.id()).progress.total == 0);
    CHECK(r.snapshot().to_text().find(" done") == std::string::npos);
    job.progress(0, 200);
    std::this_thread::sleep_for(30ms);
    job.progress(50, 200);

    batch_info const seen = look(r, job.id());
    CHECK(seen.progress.done == 50);
    CHECK(seen.progress.total == 200);
    CHECK(seen.progress.rate > 0);
    CHECK(seen.progress.rate <= 50 / 0.02);
    CHECK(seen.progress.left > 60ms);
    CHECK(seen.progress.left != tenure::no_timeout);
    CHECK(seen.elapsed >= seen.age);

    std::string const text = r.snapshot().to_text();
    CHECK(text.find(", 50 of 200 done, ") != std::string::npos);
    CHECK(text.find(" left, age ") != std::string::npos);
    auto const json = nlohmann::json::parse(r.snapshot().to_json());
    bool       met  = false;
    for (auto const& b : json["batches"]) {
        if (b["id"] != to_text(job.id())) continue;
        met = true;
        CHECK(b["progress"]["done"] == 50);
        CHECK(b["progress"]["left_ns"].get<std::int64_t>() > 0);
        CHECK(b["waited_ns"]["memory"] == 0);
    }
    CHECK(met);

    std::this_thread::sleep_for(20ms);
    CHECK(look(r, job.id()).progress.idle >= 10ms);
}

TEST_CASE("any thread says how far a job is, by its id too") {
    accounting const books;
    registry         r;
    batch_id         gone;
    {
        batch_scope job{r};
        gone = job.id();
        std::jthread([&] { job.progress(1); }).join();
        CHECK(look(r, gone).progress.done == 1);
        std::jthread([&] { r.progress(gone, 2, 3); }).join();
        CHECK(look(r, gone).progress.total == 3);
        CHECK(job.try_progress(3, 3).has_value());
    }
    check_throws(errc::batch_ended, {"note the progress of batch"}, [&] { r.progress(gone, 3); });
    CHECK(r.try_progress(gone, 3).error() == errc::batch_ended);
    CHECK(r.try_progress(batch_id{gone.value + (std::uint64_t{1} << 40)}, 3).error() == errc::no_such_batch);

    batch_scope cancelled{r};
    cancelled.cancel();
    CHECK(cancelled.try_progress(3, 3).error() == errc::cancelled);
}

TEST_CASE("a wait that goes on counts, of four threads at once, and of the others when it is over") {
    accounting const          books;
    registry&                 r = registry::global();
    tenure::memory_budget     budget(of_100_mib());
    batch_scope               server("server");
    tenure::reservation       all = budget.reserve({.kind = "all", .bytes = 100u << 20});
    std::vector<std::jthread> threads;
    for (int i = 0; i < 5; ++i)
        threads.emplace_back([&] {
            auto const                in   = r.enter(server.id());
            tenure::reservation const room = budget.reserve({.kind = "late", .bytes = 20u << 20});
        });
    while (budget.figures().waiting < 5) std::this_thread::yield();
    std::this_thread::sleep_for(100ms);
    CHECK(look(r, server.id()).waited.memory >= 4 * 20ms);
    CHECK(look(r, server.id()).waited.stores == 0ns);
    if (::pid_t const child = ::fork(); child == 0) {  // its threads are others
        ::_exit(look(r, server.id()).waited.memory < 80ms ? 0 : 1);
    } else {
        int status = -1;
        CHECK(::waitpid(child, &status, 0) == child);
        CHECK(status == 0);
    }
    all.release();
    threads.clear();
    auto const after = look(r, server.id()).waited.memory;
    CHECK(after >= 5 * 25ms);
    std::this_thread::sleep_for(5ms);
    CHECK(look(r, server.id()).waited.memory == after);
}

TEST_CASE("the next batch in a record has said nothing and waited for nothing") {
    registry r;
    for (int i = 0; i < 3; ++i) {
        batch_scope      b{r};
        batch_info const fresh = look(r, b.id());
        CHECK(fresh.progress.done == 0);
        CHECK(fresh.elapsed - fresh.age == 0ns);
        CHECK(fresh.waited.stores == 0ns);
        b.progress(10, 20);
        auto const         far = b.make_buffer<int>(4, std::make_shared<far_store>());
        std::array<int, 4> out{};
        far.read(0, out);
        CHECK(look(r, b.id()).waited.stores >= 10ms);
    }
}

TEST_CASE("waits for memory are those of the batch, and of all above it") {
    accounting const      books;
    registry&             r = registry::global();
    tenure::memory_budget budget(of_100_mib());
    batch_scope           server("server");
    {
        tenure::reservation others = budget.reserve({.kind = "other", .bytes = 80u << 20});
        batch_scope job({.name = "job", .reservation = budget.reserve({.kind = "job", .bytes = 20u << 20})});
        {
            batch_scope        step("step");
            std::jthread const later = give_back_after(others, 40ms);
            auto const         big   = step.make_for_overwrite<std::byte[]>(40u << 20);
            CHECK(big.alive());
            CHECK(look(r, step.id()).waited.memory >= 30ms);
            CHECK(look(r, job.id()).waited.memory >= 30ms);  // by the step, which is alive
            CHECK(look(r, server.id()).waited.memory >= 30ms);
        }
        batch_info const after = look(r, job.id());  // by the step, which is over
        CHECK(after.waited.memory >= 30ms);
        CHECK(after.waited.stores == 0ns);
        CHECK(tenure::detail::describe(after).find(" for memory") != std::string::npos);
    }
    CHECK(look(r, server.id()).waited.memory >= 30ms);
    CHECK(look(r, server.id()).waited.memory < 10s);
}

TEST_CASE("a job that waits to start keeps the batch waiting that starts it") {
    registry&             r = registry::global();
    tenure::memory_budget budget(of_100_mib());
    batch_scope           server("server");
    tenure::reservation   others = budget.reserve({.kind = "other", .bytes = 80u << 20});
    std::jthread const    later  = give_back_after(others, 40ms);
    tenure::reservation   room   = budget.reserve({.kind = "job", .bytes = 40u << 20});
    CHECK(look(r, server.id()).waited.memory >= 30ms);
}

TEST_CASE("waits for stores are those for bytes that are elsewhere") {
    registry           r;
    batch_scope        job{r};
    std::array<int, 4> out{};
    auto const         near = job.make_buffer<int>(4);
    near.read(0, out);
    CHECK(look(r, job.id()).waited.stores == 0ns);

    auto const far = job.make_buffer(std::span<int const>(out), std::make_shared<far_store>());
    far.read(0, out);
    CHECK(look(r, job.id()).waited.stores >= 10ms);
    CHECK(far.try_read(0, out).has_value());
    CHECK(look(r, job.id()).waited.stores >= 20ms);
    far.copy_to(near);
    CHECK(look(r, job.id()).waited.stores >= 30ms);
    CHECK(look(r, job.id()).waited.memory == 0ns);
}

TEST_CASE("waits for batches are those for threads that change one") {
    struct slow {
        std::atomic<bool>* begun;
        explicit slow(std::atomic<bool>& b) : begun(&b) {}
        ~slow() {
            *begun = true;
            std::this_thread::sleep_for(40ms);
        }
    };
    registry          r;
    std::atomic<bool> begun{false};
    batch_scope       target{r};
    target.make<slow>(begun);
    std::jthread const other([&] {
        batch_scope here{r};
        while (!begun) std::this_thread::yield();
        { auto const inside = target.enter(); }
        CHECK(look(r, here.id()).waited.batches >= 20ms);
    });
    target.clear();
}

TEST_CASE("figures go on after a save") {
    temporary_directory const where;
    registry&                 r = registry::global();
    std::chrono::nanoseconds  before{}, waited{};
    {
        batch_scope job;
        auto const  data = job.make_buffer<int>(4);
        give_name(data, "data");
        auto const         far = job.make_buffer<int>(4, std::make_shared<far_store>());
        std::array<int, 4> out{};
        far.read(0, out);
        job.progress(30, 90);
        save(job, where.path());
        batch_info const seen = look(r, job.id());
        before                = seen.elapsed;
        waited                = seen.waited.stores;
        job.progress(50, 90);  // lost with the job
    }
    for (int again = 1; again <= 3; ++again) {
        batch_scope                    job;
        tenure::restored_buffers const all = tenure::restore(where.path());
        CHECK(all.contains("data"));
        CHECK(!all.contains(""));
        batch_info const seen = look(r, job.id());
        CHECK(seen.progress.done == 30);
        CHECK(seen.progress.total == 90);
        CHECK(seen.progress.rate == 0);
        CHECK(seen.elapsed >= seen.age + 5ms * again);  // of 10, by a coarse clock
        CHECK(seen.elapsed <= before + 10s);
        CHECK(seen.waited.stores == 0ns);
        CHECK(seen.waited_before.stores >= 10ms * again);
        CHECK(seen.waited_before.stores <= waited + 10s);
        std::array<int, 4> out{};
        job.make_buffer<int>(4, std::make_shared<far_store>()).read(0, out);
        job.try_progress(30, 90).value();
        save(job, where.path());
    }
}

TEST_CASE("what was waited before a save is not waited again by the batch above") {
    temporary_directory const where;
    registry&                 r = registry::global();
    batch_scope               server("server");
    std::chrono::nanoseconds  waited{};
    for (int attempt = 1; attempt <= 4; ++attempt) {
        batch_scope job;
        static_cast<void>(tenure::restore(where.path()));
        if (attempt == 1) {
            std::array<int, 4> out{};
            job.make_buffer<int>(4, std::make_shared<far_store>()).read(0, out);
            waited = look(r, job.id()).waited.stores;
        }
        save(job, where.path());
    }
    CHECK(waited >= 10ms);
    CHECK(look(r, server.id()).waited.stores == waited);
}

TEST_CASE("a save of a version that wrote no figures is restored") {
    temporary_directory const where;
    {
        batch_scope job;
        give_name(job.make_buffer<int>(4), "data");
        job.progress(30, 90);
        save(job, where.path());
    }
    {
        auto const store = tenure::durable_mmap_store::open(where.path());
        for (std::string const& name : store->names()) {
            if (!name.ends_with('/')) continue;
            tenure::block const old = *store->find(name);
            CHECK(store->deallocate({&old, 1}).has_value());
        }
        CHECK(store->close().has_value());
    }
    batch_scope job;
    CHECK(tenure::restore(where.path()).contains("data"));
    CHECK(look(registry::global(), job.id()).progress.total == 0);
}

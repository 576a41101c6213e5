// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// What becomes of the buffers of a batch that is cancelled, or whose time is up, while somebody is still inside:
// their blocks go at once, unless somebody is at them.

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/store/adaptor.hpp>
#include <tenure/store/mmap.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "random/dice.hpp"
#include "stores/lab_store.hpp"
#include "throws.hpp"

namespace {

using namespace std::chrono_literals;
using tenure::any_store;
using tenure::batch_id;
using tenure::batch_options;
using tenure::batch_owner;
using tenure::batch_scope;
using tenure::batch_status;
using tenure::block;
using tenure::buffer;
using tenure::errc;
using tenure::registry;
using tenure::store_operation;

std::atomic<std::uint64_t> virtual_now{1'000'000'000};

constexpr tenure::store_traits mapped{.addressable = true, .durable = true, .copyable = true};

/// A registry on a clock that the test sets, with a store that counts calls.
struct world {
    std::shared_ptr<lab_store<mapped>> lab = make_lab<mapped>("lab");
    any_store                          store{lab};
    registry                           reg{{.clock = []() noexcept { return virtual_now.load(); }}};
    accounting                         books{reg};

    ~world() { CHECK(stores_error(reg, store) == ""); }

    static void pass(std::chrono::nanoseconds time) { virtual_now += static_cast<std::uint64_t>(time.count()); }

    std::vector<buffer<int>> some(batch_scope& b, int n) const {
        std::vector<buffer<int>> all;
        for (int i = 0; i < n; ++i) {
            all.push_back(b.make_buffer<int>(100, store));
            all.back().write(0, std::array{i});
        }
        return all;
    }
    std::size_t   blocks() const { return lab->usage().blocks; }
    std::uint64_t frees() const { return lab->calls(store_operation::deallocate); }
};

/// Whoever reads waits in there.
struct reads_wait : tenure::store_adaptor<lab_store<mapped>> {
    using store_adaptor::store_adaptor;

    tenure::result<void> read(block b, std::size_t offset, std::span<std::byte> out) {
        inside.count_down();
        go_on.wait();
        return upstream()->read(b, offset, out);
    }

    std::latch inside{1}, go_on{1};
};

errc refusal(buffer<int> const& b) {
    int        n    = 0;
    auto const done = b.try_read(0, {&n, 1});
    return done ? errc{} : static_cast<errc>(done.error().value());
}

}  // namespace

TEST_SUITE("cancelled, with its guard open") {
    TEST_CASE_FIXTURE(world, "all buffers go in one call of each store, and say why") {
        auto const  other = make_lab("other");
        batch_scope above(reg, {.limits = {.hard = 1 << 20}});
        batch_scope b(tenure::below(above), {.name = "to go"});
        auto const  here  = some(b, 1000);
        auto const  there = b.make_buffer<char>(10, any_store(other));
        check_throws(errc::not_addressable, {}, [&] { there.map(); });
        auto const kept = above.make_buffer<int>(1, store);
        auto const h    = b.make<int>(7);
        auto const used = above.usage().buffer_bytes;
        CHECK(b.usage().buffers == 1001);
        b.cancel();
        CHECK(blocks() == 1);
        CHECK(frees() == 1);
        CHECK(other->usage().blocks == 0);
        CHECK(b.usage().buffers == 0);
        CHECK(b.usage().buffer_bytes == 0);
        CHECK(above.usage().buffer_bytes == used);
        CHECK(above.make_buffer<char>((1 << 20) - 60'000, store).alive());  // its limit has them back
        for (auto const& x : here) CHECK(refusal(x) == errc::cancelled);
        check_throws(errc::cancelled, {}, [&] { there.map(); });
        CHECK(refusal(kept) == errc{});
        CHECK(*h == 7);  // the guard is open
        CHECK(stores_error(reg, store) == "");
        auto const report = b.end();
        CHECK(report.status == batch_status::cancelled);
        CHECK(report.store_errors == 0);
        CHECK(frees() == 1);
        CHECK(refusal(here[0]) == errc::cancelled);
    }

    TEST_CASE_FIXTURE(world, "or expired: by whoever watches, or by the next that asks") {
        for (bool const watched : {true, false}) {
            CAPTURE(watched);
            batch_scope b(reg, {.timeout = 10ms});
            auto const  all = some(b, 3);
            pass(10ms);
            CHECK(blocks() == 3);
            if (watched) CHECK(reg.expire_overdue() == tenure::no_timeout);
            else CHECK(refusal(all[1]) == errc::expired);
            CHECK(blocks() == 0);
            CHECK(refusal(all[2]) == errc::expired);
            check_throws(errc::expired, {}, [&] { all[0].map(); });
            check_throws(errc::expired, {}, [&] { all[0].copy_to(all[1]); });
        }
    }

    TEST_CASE_FIXTURE(world, "files, too") {
        any_store const file(std::make_shared<tenure::mmap_store>(std::filesystem::temp_directory_path()));
        batch_scope     b(reg, {.timeout = 1ms});
        auto const      x = b.make_buffer<char>(1 << 20, file);
        x.write(0, std::array{'a'});
        CHECK(file.usage().blocks == 1);
        pass(1ms);
        CHECK(reg.expire_overdue() == tenure::no_timeout);
        CHECK(file.usage().bytes == 0);
    }

    TEST_CASE_FIXTURE(world, "what is pinned, or has an address, or is the store's by name stays") {
        batch_scope user(reg);
        batch_scope b(reg);
        auto const  all = some(b, 4);
        auto const  map = all[1].map();
        all[2].persist("its own");
        std::optional<tenure::pinned<buffer<int>>> held;
        {
            auto const inside = reg.enter(user.id());
            held              = tenure::pin(all[0]);
        }
        b.cancel();
        CHECK(blocks() == 3);  // the fourth is gone
        CHECK(map[0] == 1);
        held.reset();
        b.end();
        CHECK(blocks() == 1);
        auto const found = user.open_buffer<int>("its own", store);
        int        n     = 0;
        found.read(0, {&n, 1});
        CHECK(n == 2);
        lab->deallocate(std::array{found.block()});
    }

    TEST_CASE_FIXTURE(world, "what has been freed, evicted or given away before is nobody's to drop") {
        batch_scope above(reg);
        batch_scope b{tenure::below(above)};
        auto const  all = some(b, 6);
        b.free(all[5]);
        b.free(all[2]);
        b.keep(all[4]);
        tenure::evict(all[0]);
        CHECK(blocks() == 3);
        b.cancel();
        CHECK(blocks() == 1);
        CHECK(refusal(all[4]) == errc{});
        CHECK(refusal(all[2]) == errc::stale_handle);
        b.end();
        CHECK(refusal(all[4]) == errc{});
    }

    TEST_CASE_FIXTURE(world, "what a checkpoint could bring back stays till the end") {
        batch_scope b(reg);
        auto const  all = some(b, 3);
        b.checkpoint();
        auto const more = some(b, 2);
        b.cancel();
        CHECK(refusal(all[0]) == errc::cancelled);
        b.end();
        CHECK(blocks() == 0);
    }

    TEST_CASE_FIXTURE(world, "what has no bytes any more goes to no other batch") {
        batch_owner other(reg, batch_options{});
        batch_scope above(reg);
        batch_scope b{tenure::below(above)};
        auto const  all = some(b, 4);
        auto const  map = all[3].map();
        b.cancel();
        check_throws(errc::cancelled, {}, [&] { reg.transfer_ownership(all[0], other.id()); });
        check_throws(errc::cancelled, {}, [&] { reg.share(all[1], other.id()); });
        check_throws(errc::cancelled, {}, [&] { b.keep(all[2]); });
        check_throws(errc::cancelled, {}, [&] { all[2].move_to(any_store(make_lab("elsewhere"))); });
        check_throws(errc::cancelled, {}, [&] { all[2].persist("name"); });
        CHECK(blocks() == 1);
        reg.transfer_ownership(all[3], other.id());  // this one has them
        b.end();
        CHECK(map[0] == 3);
        CHECK(refusal(all[3]) == errc{});
    }

    TEST_CASE_FIXTURE(world, "nor after a rollback, which brings back an older state of what was mapped") {
        batch_scope b(reg);
        auto const  x = some(b, 1).front();
        b.checkpoint();
        auto const map = x.map();
        b.rollback();
        b.cancel();
        CHECK(blocks() == 1);
        CHECK(map[0] == 0);
    }

    TEST_CASE_FIXTURE(world, "many stores are told once each") {
        std::vector<std::shared_ptr<lab_store<>>> labs;
        for (int i = 0; i < 9; ++i) labs.push_back(make_lab("lab " + std::to_string(i)));
        batch_scope b(reg);
        for (int i = 0; i < 900; ++i) b.make_buffer<int>(1, any_store(labs[static_cast<std::size_t>(i) % 9]));
        b.cancel();
        for (auto const& l : labs) {
            CHECK(l->usage().blocks == 0);
            CHECK(l->calls(store_operation::deallocate) == 1);
        }
    }

    TEST_CASE_FIXTURE(world, "derived ones, and those they are made of") {
        batch_scope b(reg);
        auto const  in  = some(b, 1);
        auto const  sum = tenure::make_derived<int>(
            100, store, [](std::span<int> out, std::span<int const> from) { out[0] = from[0] + 1; }, in[0]);
        CHECK(refusal(sum) == errc{});
        b.cancel();
        CHECK(refusal(sum) == errc::cancelled);
        b.end();
        CHECK(blocks() == 0);
    }

    TEST_CASE_FIXTURE(world, "if the store refuses, it is told, and tried again") {
        batch_scope b(reg);
        auto const  all = some(b, 5);
        lab->inject({.on = store_operation::deallocate});
        b.cancel();
        CHECK(blocks() == 5);
        CHECK(stores_error(reg, store) == "");
        CHECK(reg.snapshot().stores.back().unfreed_bytes == 5 * 400);
        b.end();
        batch_scope next(reg);
        some(next, 1);
        next.end();
        CHECK(blocks() == 0);
    }

    TEST_CASE_FIXTURE(world, "one that is just being read is there until that is over, and goes with the batch") {
        auto const              held_up = std::make_shared<reads_wait>(lab);
        std::optional<batch_id> id;
        std::thread             reader([&] {
            batch_scope              b(reg);
            std::vector<buffer<int>> all;
            for (int i = 0; i < 3; ++i) {
                all.push_back(b.make_buffer<int>(100, any_store(held_up)));
                all.back().write(0, std::array{i});
            }
            id    = b.id();
            int n = 0;
            all[1].read(0, {&n, 1});
            CHECK(n == 1);
            CHECK(refusal(all[1]) == errc::cancelled);
            CHECK(blocks() == 1);
        });
        held_up->inside.wait();
        reg.cancel(*id);
        CHECK(blocks() == 1);
        held_up->go_on.count_down();
        reader.join();
        CHECK(blocks() == 0);
    }
}

TEST_SUITE("cancelled, with others inside or below") {
    TEST_CASE_FIXTURE(world, "batches below, of this thread and of others, with a guard and without") {
        batch_owner       top(reg, {.name = "top"});
        std::atomic<int>  ready{0};
        std::atomic<bool> go_on{false};
        auto const        wait_there = [&] {
            ++ready;
            ready.notify_all();
            go_on.wait(false);
        };
        std::thread guard([&] {
            auto const  in = top.enter();
            batch_scope b;
            auto const  all = some(b, 10);
            wait_there();
            CHECK(refusal(all[9]) == errc::cancelled);
        });
        batch_owner loose(reg, batch_options{}, top.id());
        std::thread inside([&] {
            auto const in = loose.enter();
            auto const x  = loose.make_buffer<int>(1, store);
            wait_there();
            CHECK(refusal(x) == errc::cancelled);
        });
        for (int n = 0; (n = ready) < 2;) ready.wait(n);
        CHECK(blocks() == 11);
        top.cancel();
        CHECK(blocks() == 0);
        go_on = true;
        go_on.notify_all();
        guard.join();
        inside.join();
    }
}

namespace {

/// Fails the test when a block is freed, or is not there, while it is read or written: what no store has to stand.
class exclusive_store : public plain_store<mapped> {
public:
    tenure::result<void> deallocate(std::span<block const> many) noexcept {
        {
            std::scoped_lock const guard(mutex_);
            for (block const& b : many) CHECK(users_.count(b.id) == 0);
        }
        return plain_store::deallocate(many);
    }
    tenure::result<void> read(block b, std::size_t offset, std::span<std::byte> out) {
        return use(b, [&] { return plain_store::read(b, offset, out); });
    }
    tenure::result<void> write(block b, std::size_t offset, std::span<std::byte const> in) {
        return use(b, [&] { return plain_store::write(b, offset, in); });
    }

private:
    template <class F>
    tenure::result<void> use(block b, F f) {
        {
            std::scoped_lock const guard(mutex_);
            ++users_[b.id];
        }
        std::this_thread::yield();
        auto const             done = f();
        std::scoped_lock const guard(mutex_);
        if (--users_[b.id] == 0) users_.erase(b.id);
        CHECK(done);
        return done;
    }

    std::mutex                   mutex_;
    std::map<std::uint64_t, int> users_;
};

}  // namespace

TEST_CASE("at random moments, whatever the threads inside are doing") {
    auto const       plain = std::make_shared<exclusive_store>();
    any_store const  store(plain), second(std::make_shared<exclusive_store>());
    registry         reg;
    accounting const books{reg};
    dice             d(11);
    auto const       until = std::chrono::steady_clock::now() + 10s;  // each yields, which takes long beside others
    for (int round = 0; round < (TENURE_SANITIZED ? 60 : 600); ++round) {
        if (round >= 20 && std::chrono::steady_clock::now() > until) break;
        batch_owner              request(reg, batch_options{});
        std::atomic<int>         started{0};
        std::vector<std::thread> threads;
        for (int t = 0; t < 2; ++t) {
            threads.emplace_back([&, t, seed = d.below(1u << 30)] {
                dice mine(seed);
                try {
                    auto const               in = request.enter();
                    batch_scope              b;
                    std::vector<buffer<int>> all;
                    ++started;
                    for (int n = 0;; ++n) {
                        if (all.empty() || mine.one_in(4)) {
                            all.push_back(b.make_buffer<int>(4, store));
                            all.back().write(0, std::array{n, t});
                            continue;
                        }
                        std::size_t const  i = mine.below(all.size());
                        auto const         x = all[i];
                        std::array<int, 2> two{};
                        switch (mine.below(9)) {
                        case 0: x.read(0, two); break;
                        case 1: x.write(0, std::array{n, t}); break;
                        case 2: x.copy_to(all[mine.below(all.size())]); break;
                        case 6: x.move_to(mine.one_in(2) ? store : second); break;
                        case 7: x.map()[0] = n; break;
                        case 8: reg.transfer_ownership(x, mine.one_in(2) ? request.id() : b.id()); break;
                        case 3: b.keep(x); [[fallthrough]];
                        case 4: all.erase(all.begin() + static_cast<std::ptrdiff_t>(i)); break;
                        case 5:
                            reg.free(x);
                            all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
                            break;
                        }
                    }
                } catch (tenure::error const& e) {
                    if (e.code() != errc::cancelled) FAIL_CHECK(std::string(e.what()));
                }
            });
        }
        while (started < 2 && request.status() == batch_status::active) std::this_thread::yield();
        for (auto n = d.below(100); n > 0; --n) std::this_thread::yield();
        request.cancel();
        for (std::thread& t : threads) t.join();
        request.end();
        CHECK(plain->usage().blocks == 0);
        CHECK(second.usage().blocks == 0);
    }
    CHECK(stores_error(reg, store) == "");
}

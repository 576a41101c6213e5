// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Buffers that lose their bytes and get them back: by being written anew, or by the derivation they were made with.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/detail/buffers/derivation.hpp>
#include <tenure/detail/checkpoints/rolling_back.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "random/dice.hpp"
#include "stores/lab_store.hpp"
#include "throws.hpp"

namespace {

using tenure::any_store;
using tenure::batch_id;
using tenure::batch_scope;
using tenure::buffer;
using tenure::errc;
using tenure::evict;
using tenure::frozen_buffer;
using tenure::make_derived;
using tenure::recursive;
using tenure::registry;
using tenure::store_operation;

constexpr std::size_t fewer = TENURE_SANITIZED ? 10 : 1;

auto make_far(std::string name = "far") { return make_lab<>(std::move(name)); }
auto make_near(std::string name = "near") { return make_lab<{.addressable = true}>(std::move(name)); }
auto make_library(std::string name = "library") {
    return make_lab<{.addressable = true, .durable = true, .copyable = true}>(std::move(name));
}

std::vector<int> numbers(std::size_t n, int from = 1) {
    std::vector<int> v(n);
    std::iota(v.begin(), v.end(), from);
    return v;
}

template <class B>
std::vector<int> contents(B const& b) {
    std::vector<int> v(b.size());
    b.read(0, v);
    return v;
}

/// What reading a bit of it says.
std::error_code peek(buffer<int> const& b) {
    std::array<int, 1> one{};
    auto const         done = b.try_read(0, one);
    return done ? std::error_code() : done.error();
}

buffer<int> make_filled(batch_scope& in, std::size_t n, any_store const& store, int from = 1) {
    auto const b = in.make_buffer<int>(n, store);
    b.write(0, numbers(n, from));
    return b;
}

/// Its derivation: who waits for a run of it can be seen nowhere else.
tenure::detail::derivation_hold how_made(buffer<int> const& b) {
    auto const raw = tenure::detail::handle_access::raw(b);
    return tenure::detail::look_at(static_cast<tenure::detail::buffer_record const*>(raw.pointer)->from->registry,
                                   raw)
        .made_by;
}

/// out = in + more, and how often that was done.
struct adds {
    int  more;
    int* runs;

    void operator()(std::span<int> out, std::span<int const> in) const {
        ++*runs;
        std::transform(in.begin(), in.end(), out.begin(), [&](int i) { return i + more; });
    }
};

struct lab {
    registry   r;
    accounting books{r};

    std::size_t shared() const {
        std::size_t n = 0;
        for (tenure::batch_info const& b : r.snapshot().batches) n += b.shared_by > 0;
        return n;
    }
};

}  // namespace

TEST_SUITE("an evicted buffer") {
    TEST_CASE_FIXTURE(lab, "has no bytes, and is still there") {
        auto const  store = make_far();
        batch_scope b{r, {.store = store}};
        auto const  x = make_filled(b, 10, store);
        evict(x);
        CHECK(x.alive());
        CHECK(x.size() == 10);
        CHECK(x.owner() == b.id());
        CHECK(x.stores() == std::vector<any_store>{store});
        CHECK(store->usage().blocks == 0);
        CHECK(b.usage().objects == 1);
        CHECK(b.usage().buffers == 0);
        CHECK(b.usage().buffer_bytes == 0);
        CHECK(stores_error(r, store) == "");
        evict(x);
        evict(x, recursive);
        CHECK(store->calls(store_operation::deallocate) == 1);
        auto const report = b.end();
        CHECK(report.freed == 1);
        CHECK(report.store_errors == 0);
        CHECK(store->calls(store_operation::deallocate) == 1);
        CHECK_FALSE(x.alive());
        check_throws(errc::stale_handle, {}, [&] { evict(x); });
        check_throws(errc::stale_handle, {}, [&] { evict(x, recursive); });
        check_throws(errc::stale_handle, {}, [&] { evict(buffer<int>{}); });
    }

    TEST_CASE_FIXTURE(lab, "says so to whoever wants its bytes") {
        auto const         store = make_library();
        batch_scope        b(r);
        auto const         x = make_filled(b, 4, store), y = make_filled(b, 4, store);
        std::array<int, 2> two{};
        evict(x);
        for (auto const& call : std::initializer_list<std::function<void()>>{
                 [&] { x.read(0, two); }, [&] { x.write(0, two); }, [&] { (void)x.map(); }, [&] { x.copy_to(y); },
                 [&] { y.copy_to(x); }, [&] { x.move_to(make_far()); }, [&] { (void)x.block(); },
                 [&] { x.persist("name"); }, [&] { x.sync(); }, [&] { tenure::copy(x); },
                 [&] { (void)frozen(x).map(); }})
            check_throws(errc::evicted, {"evicted", "write it anew"}, call);
        CHECK(x.try_read(0, two).error() == errc::evicted);
        CHECK(x.try_write(1, two).error() == errc::evicted);
        CHECK(x.try_read(3, two).error() == errc::out_of_range);
        CHECK(contents(y) == numbers(4));
        CHECK(stores_error(r, store) == "");
    }

    TEST_CASE_FIXTURE(lab, "is made anew by who writes all of it, in its store") {
        auto const  store = make_far();
        batch_scope b(r);
        auto const  x = make_filled(b, 4, store);
        for (int round = 0; round < 3; ++round) {
            evict(x);
            x.write(0, numbers(4, round));
            CHECK(contents(x) == numbers(4, round));
            CHECK(store->usage().bytes == 16);
            CHECK(b.usage().buffer_bytes == 16);
            CHECK(stores_error(r, store) == "");
        }
        auto const none = b.make_buffer<int>(0, store);
        evict(none);
        none.write(0, {});
        none.read(0, {});
    }

    TEST_CASE_FIXTURE(lab, "may be kept, transferred, shared and freed") {
        auto const     store = make_far();
        batch_id const other = r.new_batch();
        batch_scope    outer(r);
        buffer<int>    kept, given, shared, freed;
        {
            batch_scope b(r);
            for (buffer<int>* x : {&kept, &given, &shared, &freed}) evict(*x = make_filled(b, 4, store));
            b.keep(kept);
            r.transfer_ownership(given, other);
            b.share(shared, other);
            b.free(freed);
        }
        CHECK_FALSE(freed.alive());
        for (buffer<int> const& x : {kept, given, shared}) {
            CHECK(peek(x) == errc::evicted);
            x.write(0, numbers(4));
            CHECK(contents(x) == numbers(4));
        }
        CHECK(store->usage().bytes == 48);
        CHECK(outer.usage().buffer_bytes == 16);
        CHECK(stores_error(r, store) == "");
        r.end_batch(other);
        outer.end();
        CHECK(store->usage().blocks == 0);
    }

    TEST_CASE_FIXTURE(lab, "counts towards no limit, and must fit in it to come back") {
        batch_scope b{r, {.limits = {.hard = 10'000}}};
        auto const  x = b.make_buffer<char>(6'000);
        evict(x);
        auto const              y = b.make_buffer<char>(6'000);
        std::vector<char> const all(6'000, 'x');
        check_throws(errc::limit_exceeded, {"limit 10000"}, [&] { x.write(0, all); });
        CHECK(x.try_write(0, all).error() == errc::limit_exceeded);
        evict(y);
        x.write(0, all);
        CHECK(x.map()[5'999] == 'x');
    }

    TEST_CASE_FIXTURE(lab, "not of what its store keeps by name") {
        auto const  store = make_library();
        batch_scope b(r);
        auto const  x = make_filled(b, 4, store);
        x.persist("x");
        check_throws(errc::not_owner, {"evict"}, [&] { evict(x); });
        CHECK(contents(x) == numbers(4));
    }

    TEST_CASE_FIXTURE(lab, "whose store could not free it: that is tried again at the end") {
        auto const  store = make_far();
        batch_scope b(r);
        auto const  x = make_filled(b, 4, store);
        store->inject({.on = store_operation::deallocate});
        evict(x);
        CHECK(peek(x) == errc::evicted);
        CHECK(store->usage().blocks == 1);
        x.write(0, numbers(4, 7));
        CHECK(store->usage().blocks == 2);
        CHECK(contents(x) == numbers(4, 7));
        CHECK(stores_error(r, store) == "");
        CHECK(b.end().store_errors == 0);
        CHECK(store->usage().blocks == 0);
    }

    TEST_CASE_FIXTURE(lab, "stays evicted if it cannot be written") {
        auto const  store = make_far();
        batch_scope b(r);
        auto const  x = make_filled(b, 4, store);
        evict(x);
        for (store_operation const on : {store_operation::allocate, store_operation::write}) {
            store->inject({.on = on});
            check_throws(std::make_error_code(std::errc::io_error), {"far"}, [&] { x.write(0, numbers(4)); });
            CHECK(peek(x) == errc::evicted);
            CHECK(store->usage().blocks == 0);
            CHECK(stores_error(r, store) == "");
        }
        x.write(0, numbers(4));
        CHECK(contents(x) == numbers(4));
    }
}

TEST_SUITE("a derived buffer") {
    TEST_CASE_FIXTURE(lab, "is made by its first access, and again after an eviction") {
        auto const  store = make_far();
        batch_scope b(r);
        int         runs = 0;
        auto const  x    = make_filled(b, 10, store);
        auto const  d    = make_derived<int>(10, any_store(store), adds{100, &runs}, x);
        CHECK(d.owner() == b.id());
        CHECK(d.size() == 10);
        CHECK(d.stores() == x.stores());
        CHECK(runs == 0);
        CHECK(store->usage().bytes == 40);
        for (int round = 1; round < 4; ++round) {
            CHECK(contents(d) == numbers(10, 101));
            CHECK(contents(d) == numbers(10, 101));
            CHECK(runs == round);
            CHECK(store->usage().bytes == 80);
            CHECK(stores_error(r, store) == "");
            evict(d);
            CHECK(store->usage().bytes == 40);
            CHECK(stores_error(r, store) == "");
        }
        CHECK(b.usage().objects == 1);  // x is shared with the derivation
        CHECK(shared() == 1);
        b.end();
        CHECK(shared() == 0);
        CHECK(store->usage().blocks == 0);
    }

    TEST_CASE_FIXTURE(lab, "by any access") {
        auto const  store = make_library();
        batch_scope b(r);
        int         runs = 0;
        auto const  x = make_filled(b, 4, store), other = make_filled(b, 4, store);
        auto const  d    = make_derived<int>(4, any_store(store), adds{1, &runs}, x);
        auto const  want = numbers(4, 2);
        auto const  once = [&](auto f) {
            runs = 0;
            evict(d);
            f();
            CHECK(runs == 1);
            CHECK(contents(d) == want);
            CHECK(runs == 1);
        };
        once([&] { CHECK(d.map()[3] == 5); });
        once([&] { CHECK(frozen(d).map()[3] == 5); });
        once([&] { d.copy_to(other); });
        CHECK(contents(other) == want);
        once([&] { CHECK(contents(tenure::copy(d)) == want); });
        once([&] { (void)d.block(); });
        once([&] { d.move_to(make_near("elsewhere")); });
        CHECK(d.stores().front().describe() == "faulty elsewhere");
        once([&] { CHECK(d.try_write(0, std::array{2}).has_value()); });  // a part: the rest must be there
        evict(d);
        d.write(0, numbers(4, 50));  // all: it need not
        CHECK(contents(d) == numbers(4, 50));
        once([&] { d.move_to(store); });  // and what was written an eviction loses
        once([&] { d.persist("d"), evict(other); });
    }

    TEST_CASE_FIXTURE(lab, "takes inputs of any types and stores, none as well") {
        batch_scope b(r);
        auto const  chars = b.make_buffer<char>(3, make_near());
        auto const  x     = make_filled(b, 3, make_far());
        std::fill_n(chars.map().begin(), 3, 'a');
        for (any_store const& store : {any_store(make_far("to")), any_store(make_near("to")), any_store()}) {
            auto const d = make_derived<double>(
                3, store,
                [](std::span<double> out, std::span<char const> c, std::span<int const> i) {
                    for (std::size_t k = 0; k < out.size(); ++k) out[k] = c[k] + i[k] + 0.5;
                },
                tenure::frozen(chars), x);
            std::array<double, 3> all{};
            d.read(0, all);
            CHECK(all == std::array{'a' + 1.5, 'a' + 2.5, 'a' + 3.5});
        }
        auto const constant = make_derived<int>(2, [](std::span<int> out) { out[0] = out[1] = 7; });
        CHECK(contents(constant) == std::vector{7, 7});
        evict(constant);
        CHECK(contents(constant) == std::vector{7, 7});
    }

    TEST_CASE_FIXTURE(lab, "may be made by what takes buffers") {
        auto const  store = make_lab<{.copyable = true}>("device");
        batch_scope b(r);
        auto const  x    = make_filled(b, 5, store);
        int         runs = 0;
        auto const  d    = make_derived<int>(
            5, any_store(store),
            [&](buffer<int> out, frozen_buffer<int> in) {
                ++runs;
                CHECK(out.stores() == in.stores());
                in.copy_to(out);
                out.write(4, std::array{0});
            },
            x);
        for (int round = 1; round < 3; ++round) {
            CHECK(contents(d) == std::vector{1, 2, 3, 4, 0});
            CHECK(runs == round);
            CHECK(store->calls(store_operation::copy) == static_cast<unsigned>(round));
            CHECK(stores_error(r, store) == "");
            evict(d);
        }
        auto const refuses = make_derived<int>(
            5, any_store(store), [&](buffer<int>, frozen_buffer<int>) { throw std::runtime_error("no"); }, x);
        CHECK_THROWS_WITH(contents(refuses), "no");
        CHECK(store->usage().blocks == 1);
        CHECK(r.snapshot().batches.size() == 3);
    }

    TEST_CASE_FIXTURE(lab, "holds its inputs, whatever becomes of the batches that had them") {
        auto const  store = make_far();
        batch_scope outer(r);
        int         runs = 0;
        buffer<int> x, d;
        {
            batch_scope inner(r);
            x = make_filled(inner, 4, store);
            d = inner.keep(make_derived<int>(4, any_store(store), adds{1, &runs}, x));
            inner.free(x);  // lets go
            CHECK(x.alive());
        }
        CHECK(x.alive());
        CHECK(contents(d) == numbers(4, 2));
        evict(d);
        CHECK(contents(d) == numbers(4, 2));
        CHECK(runs == 2);
        outer.free(d);
        CHECK_FALSE(x.alive());
        CHECK(shared() == 0);
        CHECK(store->usage().blocks == 0);
    }

    TEST_CASE_FIXTURE(lab, "whose inputs were evicted has them made again first") {
        batch_scope b(r);
        int         runs[2]{};
        auto const  x = make_filled(b, 4, make_far());
        auto const  y = make_derived<int>(4, adds{10, &runs[0]}, x);
        auto const  z = make_derived<int>(4, adds{100, &runs[1]}, y);
        CHECK(contents(z) == numbers(4, 111));
        CHECK((runs[0] == 1 && runs[1] == 1));
        evict(y);
        CHECK(contents(z) == numbers(4, 111));
        CHECK((runs[0] == 1 && runs[1] == 1));
        evict(z);
        CHECK(contents(z) == numbers(4, 111));
        CHECK((runs[0] == 2 && runs[1] == 2));
        evict(z);
        evict(x);
        CHECK(contents(z) == numbers(4, 111));  // y was still there
        evict(z);
        evict(y);
        check_throws(errc::evicted, {"an input of a derived buffer"}, [&] { contents(z); });
        check_throws(errc::evicted, {}, [&] { contents(y); });
        x.write(0, numbers(4, 5));
        CHECK(contents(z) == numbers(4, 115));
    }

    TEST_CASE_FIXTURE(lab, "of which all copies are stale, and inputs that were freed for all") {
        batch_scope b(r);
        int         runs = 0;
        auto const  x    = make_filled(b, 4, make_far());
        auto const  d    = make_derived<int>(4, adds{10, &runs}, x);
        r.free(x);
        check_throws(errc::stale_handle, {"an input of a derived buffer"}, [&] { contents(d); });
        check_throws(errc::stale_handle, {"take an input"}, [&] { make_derived<int>(4, adds{10, &runs}, x); });
        r.free(d);
        check_throws(errc::stale_handle, {}, [&] { contents(d); });
        registry    other;
        batch_scope elsewhere(other);
        auto const  far = make_filled(elsewhere, 4, make_far());
        auto const  in  = [&] { return make_derived<int>(4, adds{10, &runs}, far); };
        check_throws(errc::stale_handle, {}, [&] { contents(d); });
        {
            batch_scope here(r);
            check_throws(errc::not_owner, {"take an input"}, in);
        }
        CHECK(contents(in()) == numbers(4, 11));
        CHECK(runs == 1);
    }

    TEST_CASE_FIXTURE(lab, "must not read what it makes") {
        batch_scope b(r);
        buffer<int> d;
        d = make_derived<int>(2, [&](std::span<int> out) { d.read(0, out); });
        check_throws(errc::evicted, {"reads what it makes"}, [&] { contents(d); });
    }

    TEST_CASE_FIXTURE(lab, "keeps its inputs where they are while it reads them") {
        batch_scope b(r);
        buffer<int> x = make_filled(b, 2, make_near());
        auto const  d = make_derived<int>(
            2,
            [&](std::span<int> out, std::span<int const> in) {
                check_throws(errc::object_pinned, {"evict"}, [&] { evict(x); });
                check_throws(errc::object_pinned, {"move"}, [&] { x.move_to(make_far()); });
                std::copy(in.begin(), in.end(), out.begin());
            },
            x);
        CHECK(contents(d) == numbers(2));
        evict(x);
        CHECK(contents(d) == numbers(2));
    }

    TEST_CASE_FIXTURE(lab, "is not evicted while another batch uses it") {
        batch_scope    b(r);
        batch_id const user = r.new_batch();
        auto const     d    = make_derived<int>(2, [](std::span<int> out) { out[0] = out[1] = 7; });
        CHECK(contents(d) == std::vector{7, 7});
        r.borrow(user, d);
        check_throws(errc::object_pinned, {"evict"}, [&] { evict(d); });
        r.end_batch(user);
        evict(d);
        CHECK(contents(d) == std::vector{7, 7});
    }

    TEST_CASE_FIXTURE(lab, "a derivation may make what it likes, and end with its buffer") {
        auto const  state = std::make_shared<int>(3);
        batch_scope b(r);
        auto const  d = make_derived<int>(1, [state](std::span<int> out) {
            batch_scope scratch;
            out[0] = *tenure::make<int>(*state);
        });
        CHECK(contents(d) == std::vector{3});
        CHECK(state.use_count() == 2);
        b.free(d);
        CHECK(state.use_count() == 1);
        make_derived<int>(1, [state](std::span<int> out) { out[0] = *state; });
        b.end();
        CHECK(state.use_count() == 1);
    }

    TEST_CASE_FIXTURE(lab, "a chain of very many neither comes back nor ends by recursion") {
        std::size_t const        n     = 10'000 / fewer;
        auto const               store = make_near();
        batch_scope              outer(r);
        int                      runs = 0;
        std::vector<buffer<int>> all;
        {
            batch_scope b(r);
            all.push_back(make_filled(b, 2, store, 0));
            for (std::size_t i = 0; i < n; ++i)
                all.push_back(make_derived<int>(2, any_store(store), adds{1, &runs}, all.back()));
            b.keep(all.back());
        }
        CHECK(all.front().alive());
        CHECK(runs == 0);
        CHECK(contents(all.back())[0] == static_cast<int>(n));
        CHECK(runs == static_cast<int>(n));
        CHECK(store->usage().blocks == n + 1);
        evict(all.back(), recursive);
        CHECK(store->usage().blocks == 1);
        CHECK(contents(all.back())[1] == static_cast<int>(n) + 1);
        CHECK(runs == static_cast<int>(2 * n));
        outer.free(all.back());
        CHECK_FALSE(all.front().alive());
        CHECK(store->usage().blocks == 0);
    }

    TEST_CASE_FIXTURE(lab, "evict(recursive) drops what nothing else needs") {
        auto const  store = make_near();
        batch_scope b(r);
        int         runs = 0;
        auto const  here = [](buffer<int> const& x) { return x.stores().front().usage().blocks; };
        auto const  x    = make_filled(b, 2, store, 0);
        auto const  make = [&](auto... in) {
            return make_derived<int>(
                2, any_store(make_near()),
                [&](std::span<int> out, auto... spans) {
                    ++runs;
                    out[0] = out[1] = 1 + (0 + ... + spans[0]);
                },
                in...);
        };
        auto const a = make(x), left = make(a), right = make(a), top = make(left, right), aside = make(left);
        CHECK(contents(top)[0] == 5);
        CHECK(contents(aside)[0] == 3);
        CHECK(runs == 5);
        evict(top, recursive);
        CHECK((here(top) == 0 && here(right) == 0));
        CHECK((here(left) == 1 && here(a) == 1));  // aside was made of left, and left of a
        evict(aside, recursive);
        CHECK((here(aside) == 0 && here(left) == 0 && here(a) == 0));
        CHECK(here(x) == 1);  // nothing could make it again
        CHECK(contents(top)[0] == 5);
        CHECK(runs == 9);
        CHECK((here(left) == 1 && here(right) == 1 && here(aside) == 0));
        b.free(top);
        evict(left, recursive);
        CHECK((here(left) == 0 && here(a) == 1));  // right is here
        evict(right, recursive);
        CHECK(here(a) == 0);
    }

    TEST_CASE_FIXTURE(lab, "whose derivation or store fails is as it was, and the next access tries again") {
        auto const  from = make_far("from"), to = make_far("to");
        batch_scope b{r, {.limits = {.hard = 1000}}};
        auto const  x     = make_filled(b, 10, from);
        bool        fails = true;
        int         runs  = 0;
        auto const  d     = make_derived<int>(
            10, any_store(to),
            [&](std::span<int> out, std::span<int const> in) {
                ++runs;
                if (fails) throw std::runtime_error("not yet");
                std::copy(in.begin(), in.end(), out.begin());
            },
            x);
        auto const before = b.usage();
        for (int i = 1; i < 20; ++i) {
            CHECK_THROWS_WITH_AS(contents(d), "not yet", std::runtime_error);
            CHECK(runs == i);
        }
        fails                   = false;
        auto const disconnected = tenure::faults::fails{make_error_code(errc::disconnected)};
        auto const strike       = [&](auto const& store, store_operation on) {
            runs = 0;
            store->inject({.on = on, .how = disconnected});
            CHECK(peek(d) == errc::disconnected);
            CHECK(runs == (on == store_operation::write));
            CHECK(to->usage().blocks == 0);
            CHECK(b.usage() == before);
            CHECK(stores_error(r, to) == "");
            CHECK(contents(d) == numbers(10));
            CHECK(stores_error(r, to) == "");
            evict(d);
        };
        strike(from, store_operation::read);
        strike(to, store_operation::allocate);
        strike(to, store_operation::write);
        CHECK(contents(d) == numbers(10));
        evict(d);
        b.make<std::array<char, 916>>();
        check_throws(errc::limit_exceeded, {"limit 1000"}, [&] { contents(d); });
    }

    TEST_CASE("goes with its registry") {
        auto const state = std::make_shared<int>();
        auto const store = make_far();
        {
            registry       r({.on_leak = {}});
            batch_id const id     = r.new_batch();
            auto const     inside = r.enter(id);
            auto const     x      = tenure::make_buffer<int>(2, store);
            auto const     d      = make_derived<int>(2, [state](auto out, auto in) { out[0] = in[0]; }, x);
            r.share(d, r.root());
            make_derived<int>(2, [state](auto out, auto in) { out[0] = in[0]; }, d);
        }
        CHECK(state.use_count() == 1);
        CHECK(store->usage().blocks == 0);
    }
}

TEST_SUITE("threads at one derived buffer") {
    /// Starts all at once.
    template <class F>
    void at_once(std::size_t n, F f) {
        std::atomic<std::size_t> ready{0};
        std::vector<std::thread> all;
        for (std::size_t t = 0; t < n; ++t)
            all.emplace_back([&, t] {
                for (++ready; ready < n;) std::this_thread::yield();
                f(t);
            });
        for (std::thread& t : all) t.join();
    }

    TEST_CASE_FIXTURE(lab, "have it made once") {
        for (std::size_t round = 0; round < 100 / fewer; ++round) {
            batch_scope      b(r);
            std::atomic<int> runs{0};
            auto const       x    = make_filled(b, 100, make_near());
            auto const       slow = [&](std::span<int> out, std::span<int const> in) {
                ++runs;
                std::this_thread::yield();
                std::copy(in.begin(), in.end(), out.begin());
            };
            auto const y = make_derived<int>(100, slow, x);
            auto const z = make_derived<int>(100, slow, y);
            for (int again = 1; again < 3; ++again) {
                at_once(4, [&](std::size_t t) { CHECK(contents(t % 2 ? y : z) == numbers(100)); });
                CHECK(runs == 2 * again);
                evict(z, recursive);
            }
        }
    }

    TEST_CASE_FIXTURE(lab, "all hear of its failure, and can try again") {
        for (std::size_t round = 0; round < 20 / fewer + 1; ++round) {
            batch_scope           b(r);
            std::atomic<int>      runs{0}, failures{0};
            constexpr std::size_t n = 4;
            std::function<bool()> others_wait;
            auto const            d = make_derived<int>(1, [&](std::span<int> out) {
                if (runs++ == 0) {
                    // Not for ever: where somebody does not wait, this fails below, and does not hang.
                    auto const enough = std::chrono::steady_clock::now() + std::chrono::seconds(20);
                    while (!others_wait() && std::chrono::steady_clock::now() < enough) std::this_thread::yield();
                    // They have their shares in the answer; and now most of them are asleep, too.
                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
                    throw 7;
                }
                out[0] = 3;
            });
            // Who else has it: the derivation, and who runs it.
            auto const made_by = how_made(d);
            others_wait        = [&] {
                std::scoped_lock const guard(tenure::detail::running_derivations.mutex);
                return made_by->running.use_count() == 2 + (n - 1);
            };
            // Nobody's is the last to go: ThreadSanitizer does not see how an exception counts who has it.
            std::array<std::exception_ptr, n> heard;
            at_once(n, [&](std::size_t t) {
                try {
                    contents(d);
                } catch (int e) {
                    CHECK(e == 7);
                    ++failures;
                    heard[t] = std::current_exception();
                }
            });
            CHECK(failures == n);
            CHECK(runs == 1);
            CHECK(contents(d) == std::vector{3});
            CHECK(runs == 2);
        }
    }

    TEST_CASE_FIXTURE(lab, "may give it away while it is made") {
        for (std::size_t round = 0; round < 100 / fewer; ++round) {
            batch_id const one = r.new_batch(), two = r.new_batch();
            buffer<int>    d;
            {
                batch_scope b(r);
                auto const  x = make_filled(b, 10, make_far());
                d             = make_derived<int>(
                    10, any_store(make_far()),
                    [](auto out, auto in) {
                        std::this_thread::yield();
                        std::copy(in.begin(), in.end(), out.begin());
                    },
                    x);
                r.transfer_ownership(d, one);
            }
            at_once(3, [&](std::size_t t) {
                if (t == 0) r.transfer_ownership(d, two);
                else if (t == 1) r.share(d, one);
                else CHECK(contents(d) == numbers(10));
            });
            CHECK(contents(d) == numbers(10));
            r.end_batch(one);
            r.end_batch(two);
            CHECK_FALSE(d.alive());
        }
    }
}

TEST_SUITE("random") {
    TEST_CASE("graphs of derivations: what is read is always what plain functions give") {
        std::uint64_t const seed  = from_environment("TENURE_SEED", 1);
        std::size_t const   steps = from_environment("TENURE_STEPS", 1'000 / fewer);
        struct node {
            buffer<int>              buf;
            std::vector<std::size_t> inputs;
            int                      value   = 0;
            bool                     alive   = true;
            bool                     raw     = true;
            bool                     evicted = false;
        };
        for (std::uint64_t s = seed; s < seed + 10; ++s) {
            CAPTURE(s);
            dice              roll(s);
            registry          r;
            accounting        books(r);
            any_store const   stores[]{make_far("far"), make_near("near")};
            batch_scope       outer(r);
            batch_scope       b(r);
            std::vector<node> all;
            std::size_t       ran        = 0;
            auto const        pick       = [&] { return roll.below(all.size()); };
            auto const        needs_lost = [&](std::size_t i) {
                return std::any_of(all[i].inputs.begin(), all[i].inputs.end(),
                                          [&](std::size_t k) { return bool(peek(all[k].buf)); });
            };
            for (std::size_t step = 0; step < steps; ++step) {
                any_store const& store = stores[roll.below(2)];
                if (all.size() < 4 || roll.one_in(5)) {
                    node n;
                    if (all.size() < 4 || roll.one_in(4)) {
                        n.value = static_cast<int>(roll.below(1000));
                        n.buf   = b.make_buffer<int>(4, store);
                        n.buf.write(0, std::array{n.value, n.value, n.value, n.value});
                    } else {
                        std::size_t const x = pick(), y = pick();
                        if (!all[x].alive || !all[y].alive) continue;
                        n.raw    = false;
                        n.inputs = {x, y};
                        n.value  = (all[x].value * 3 + all[y].value + 1) % 100'003;
                        n.buf    = make_derived<int>(
                            4, store,
                            [&ran](std::span<int> out, std::span<int const> p, std::span<int const> q) {
                                ++ran;
                                for (std::size_t k = 0; k < 4; ++k) out[k] = (p[k] * 3 + q[k] + 1) % 100'003;
                            },
                            all[x].buf, all[y].buf);
                    }
                    all.push_back(n);
                    continue;
                }
                node& n = all[pick()];
                if (!n.alive) continue;
                switch (roll.below(8)) {
                case 0:
                    if (!n.raw || roll.one_in(4)) evict(n.buf), n.evicted = n.raw;
                    break;
                case 1:
                    if (!n.raw) evict(n.buf, recursive);
                    break;
                case 2:
                    if (n.raw && n.evicted)
                        n.buf.write(0, std::array{n.value, n.value, n.value, n.value}), n.evicted = false;
                    break;
                case 3:
                    if (roll.one_in(3)) b.keep(n.buf);
                    break;
                case 4:
                    if (!peek(n.buf)) n.buf.move_to(store);
                    break;
                default: {
                    std::array<int, 4> got{};
                    auto const         done = n.buf.try_read(0, got);
                    if (done) CHECK(got == std::array{n.value, n.value, n.value, n.value});
                    else {
                        CHECK(done.error() == errc::evicted);
                        CHECK((n.raw ? n.evicted : needs_lost(static_cast<std::size_t>(&n - all.data()))));
                    }
                }
                }
                if (step % 32 == 0)
                    for (any_store const& in : stores) CHECK(stores_error(r, in) == "");
            }
            CHECK(ran > 0);
            b.end();
            outer.end();
            for (any_store const& in : stores) CHECK(in.usage().blocks == 0);
        }
    }
}

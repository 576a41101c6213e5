// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include "failing.hpp"  // first

// Which objects a batch has, and where they were made.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <memory>
#include <memory_resource>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <tenure/detail/listing/object_records.hpp>
#include <tenure/objects.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "counted.hpp"
#include "random/dice.hpp"
#include "throws.hpp"

namespace {

using namespace tenure;

/// A registry, and nothing left in it.
struct fresh {
    registry   r;
    accounting books{r};

    fresh() { batch_scope(r).make<int>(1); }  // so that this thread has memory in stock

    std::vector<object_info> in(batch_id id) const {
        std::vector<object_info> out;
        r.for_each_object(id, [&](object_info const& o) { out.push_back(o); });
        return out;
    }
    std::vector<void const*> addresses(batch_id id) const {
        std::vector<void const*> out;
        for (object_info const& o : in(id)) out.push_back(o.address);
        return out;
    }
};

/// The same, and the registry records.
struct recording : fresh {
    recording() { r.record_objects(); }
};

std::size_t bytes_of(std::vector<object_info> const& all) {
    return std::accumulate(all.begin(), all.end(), std::size_t{0},
                           [](std::size_t n, object_info const& o) { return n + o.bytes; });
}

struct alignas(128) wide {
    char c = 'w';
};
struct alignas(128) wide_text {
    std::string s = "a string that is longer than what fits in the object";
};
struct failing_to_begin {
    explicit failing_to_begin(bool fails) {
        if (fails) throw std::runtime_error("no");
    }
    std::array<char, 100> room{};
};
using large = std::array<char, 300'000>;

struct opaque;  // never defined
struct ends_opaque {
    void operator()(opaque* p) const { delete reinterpret_cast<int*>(p); }
};
opaque* begin_opaque() { return reinterpret_cast<opaque*>(new int(1)); }

struct first_base {
    virtual ~first_base() = default;
    int one               = 1;
};
struct second_base {
    virtual ~second_base() = default;
    int two                = 2;
};
struct derived_of_both : first_base, second_base {};

[[gnu::noinline]] handle<int> one_place(batch_scope& b) {
    handle<int> const h = b.make<int>(1);
    asm volatile("" ::: "memory");  // no tail call
    return h;
}
[[gnu::noinline]] handle<int> another_place(batch_scope& b) {
    result<handle<int>> const h = b.try_make<int>(2);
    asm volatile("" ::: "memory");
    return *h;
}
[[gnu::noinline]] handle<large> place_of_large(batch_scope& b) {
    handle<large> const h = b.make<large>();
    asm volatile("" ::: "memory");
    return h;
}

/// Whether a call lies in a function that begins there.
bool lies_in(void const* call, void const* function) {
    auto const begin = reinterpret_cast<std::uintptr_t>(function), at = reinterpret_cast<std::uintptr_t>(call);
    return at > begin && at < begin + 20'000;  // with sanitizers, of one that has a make inlined
}
bool leads_through(object_info const& o, void const* function) {
    return std::ranges::any_of(o.made_at, [&](void const* call) { return lies_in(call, function); });
}
template <class F>
void const* address_of(F* f) {
    return reinterpret_cast<void const*>(f);
}

}  // namespace

TEST_SUITE("the objects of a batch") {
    TEST_CASE_FIXTURE(fresh, "are those that have an end to run, if nothing is recorded") {
        int         ends = 0, elsewhere = 7;
        batch_scope b(r);
        b.make<int>(1);
        auto const c = b.make<counted>(ends);
        auto const w = b.make<wide_text>();
        auto const s = b.make<std::string[]>(3u);
        auto const l = b.make<std::pair<large, std::string>>();
        b.adopt(&elsewhere, [&](int*) { ++ends; });
        b.defer([&] { ++ends; });
        std::vector<object_info> const all = in(b.id());
        REQUIRE(all.size() == 5);
        auto const find = [&](void const* at) -> object_info const& {
            auto const found = std::ranges::find(all, at, &object_info::address);
            REQUIRE(found != all.end());
            return *found;
        };
        CHECK(find(c.get()).type().ends_with("counted"));
        CHECK(find(c.get()).bytes == 24 + sizeof(counted));
        CHECK(find(w.get()).bytes >= 24 + sizeof(wide_text));
        CHECK(find(s.get()).type().ends_with("[]"));
        CHECK(find(s.get()).bytes >= 32 + 3 * sizeof(std::string));
        CHECK(find(l.get()).bytes >= sizeof(large));
        CHECK(find(&elsewhere).type() == "int");
        CHECK(find(&elsewhere).bytes >= 24 + 2 * sizeof(void*));
        CHECK(find(&elsewhere).is_adopted);
        for (object_info const& o : all) {
            CHECK(o.made_at.empty());
            CHECK(o.place().empty());
            CHECK(o.name.empty());
        }
    }

    TEST_CASE_FIXTURE(fresh, "that have an end are told to a thread that is alone there") {
        int         ends = 0;
        batch_scope b(r);
        b.make<counted>(ends);
        CHECK(in(b.id()).size() == 1);
        std::jthread([&] { CHECK(in(b.id()).empty()); }).join();
        batch_id const id = r.new_batch();
        {
            auto const guard = r.enter(id);
            make<counted>(ends);
        }
        std::jthread([&] { CHECK(in(id).size() == 1); }).join();
        r.end_batch(id);
        CHECK(in(id).empty());
        check_throws(errc::no_such_batch, {"list the objects of batch"},
                     [&] { in(batch_id{~std::uint64_t{0} >> 1}); });
    }

    TEST_CASE_FIXTURE(fresh, "that have an end are those of the batch that owns them now") {
        int            ends  = 0;
        batch_id const other = r.new_batch();
        batch_scope    b(r);
        auto const     here  = b.make<counted>(ends);
        auto const     given = b.make<wide_text>();
        std::jthread([&] { r.transfer_ownership(given, other); }).join();  // stays in the list of its lane
        CHECK(addresses(b.id()) == std::vector<void const*>{here.get()});
        CHECK(addresses(other) == std::vector<void const*>{given.get()});
        std::jthread([&] { r.free(given); }).join();
        CHECK(addresses(b.id()) == std::vector<void const*>{here.get()});
        CHECK(in(other).empty());
        r.end_batch(other);
    }

    TEST_CASE_FIXTURE(recording, "are all there if they are recorded, as they were made") {
        int                      ends = 0;
        batch_scope              b(r);
        std::vector<void const*> made;
        for (int i = 0; i < 300; ++i) {
            made.push_back(b.make<int>(i).get());
            made.push_back(b.make<wide>().get());
            made.push_back(b.make<counted>(ends).get());
            made.push_back(b.make<char>('c').get());
            made.push_back(b.make<wide_text>().get());
            made.push_back(b.make<double[]>(static_cast<std::size_t>(i)).get());
            made.push_back(b.make<std::string[]>({"a", "b"}).get());
            made.push_back(b.try_make<short>(short{1})->get());
            made.push_back(b.make_for_overwrite<char[]>(50u).get());
            if (i % 100 == 0) made.push_back(b.make<large>().get());
        }
        std::vector<object_info> const all = in(b.id());
        CHECK(addresses(b.id()) == made);
        CHECK(all.size() == r.usage(b.id()).objects);
        CHECK(bytes_of(all) == r.usage(b.id()).bytes);
        CHECK(all[0].type() == "int");
        CHECK(all[3].type() == "char");
        CHECK(all[5].type() == "double []");
        for (object_info const& o : all) CHECK(!o.made_at.empty());
        std::jthread([&] { CHECK(addresses(b.id()) == made); }).join();
    }

    TEST_CASE_FIXTURE(recording, "tell where they were made") {
        batch_scope b(r);
        int const volatile three = 3;  // so that there is one call, and not three
        for (int i = 0; i < three; ++i) one_place(b);
        another_place(b);
        place_of_large(b);
        std::vector<object_info> const all = in(b.id());
        REQUIRE(all.size() == 5);
        CHECK(all[0].made_at == all[1].made_at);
        CHECK(all[0].made_at == all[2].made_at);
        CHECK(all[0].made_at != all[3].made_at);
        CHECK(lies_in(all[0].made_at.front(), address_of(&one_place)));
        CHECK(leads_through(all[3], address_of(&another_place)));
        CHECK(leads_through(all[4], address_of(&place_of_large)));
        CHECK(all[0].place().find("+0x") != std::string::npos);
        CHECK(all[0].place().find(" [") == std::string::npos);
    }

    TEST_CASE_FIXTURE(recording, "are those that it owns, wherever they were made") {
        int             ends = 0;
        batch_scope     outer(r);
        batch_id const  other = r.new_batch();
        handle<int>     kept, given, freed, plain;
        handle<counted> kept_end, given_end;
        {
            batch_scope inner(r);
            plain     = inner.make<int>(0);
            kept      = inner.make<int>(1);
            kept_end  = inner.make<counted>(ends);
            given     = inner.make<int>(2);
            given_end = inner.make<counted>(ends);
            freed     = inner.make<int>(3);
            inner.keep(kept);
            inner.keep(kept_end);
            r.transfer_ownership(given, other);
            r.transfer_ownership(given_end, other);
            inner.free(freed);
            CHECK(addresses(inner.id()) == std::vector<void const*>{plain.get()});
        }
        CHECK(addresses(outer.id()) == std::vector<void const*>{kept.get(), kept_end.get()});
        CHECK(addresses(other) == std::vector<void const*>{given.get(), given_end.get()});
        outer.clear();
        CHECK(in(outer.id()).empty());
        auto const again = outer.make<int>(4);
        CHECK(addresses(outer.id()) == std::vector<void const*>{again.get()});
        r.end_batch(other);
    }

    TEST_CASE_FIXTURE(fresh, "of the root are not told, for any thread may be there") {
        int             ends = 0;
        handle<counted> kept;
        {
            batch_scope b(r);
            kept = b.keep(b.make<counted>(ends));
        }
        CHECK(in(r.root()).empty());
        r.free(kept);
    }

    TEST_CASE_FIXTURE(recording, "of the root are told if they were recorded") {
        int             ends = 0;
        handle<int>     kept;
        handle<counted> kept_end;
        {
            batch_scope b(r);
            kept     = b.keep(b.make<int>(1));
            kept_end = b.keep(b.make<counted>(ends));
        }
        batch_id const root = kept.owner();
        CHECK(addresses(root) == std::vector<void const*>{kept.get(), kept_end.get()});
        r.free(kept);
        r.free(kept_end);
        CHECK(in(root).empty());
    }

    TEST_CASE_FIXTURE(recording, "are not those whose constructor threw") {
        batch_scope b(r);
        b.make<int>(1);
        CHECK_THROWS_AS(b.make<failing_to_begin>(true), std::runtime_error);
        CHECK(in(b.id()).size() == 1);
        b.make<long>(1);  // in the room that the other did not take
        b.make<long>(2);
        CHECK(in(b.id()).size() == 3);
        b.clear();
        b.make<int>(1);
        b.make<std::array<char, 60'000>>();
        CHECK_THROWS_AS(b.make<failing_to_begin>(true), std::runtime_error);
        b.make<std::array<char, 60'000>>();  // elsewhere: there is no room behind
        CHECK(in(b.id()).size() == 3);
        CHECK(in(b.id()).size() == r.usage(b.id()).objects);
        CHECK_THROWS_AS((b.make<std::pair<large, failing_to_begin>>(large{}, true)), std::runtime_error);
        CHECK(in(b.id()).size() == 3);
        b.make<failing_to_begin>(false);
        CHECK(in(b.id()).size() == 4);
    }

    TEST_CASE_FIXTURE(recording, "are not those whose make came to nothing") {
        namespace inner = tenure::detail;
        batch_scope b(r);
        b.make<int>(1);
        inner::lane const& l         = *inner::this_thread.current;
        auto const         note_next = [&] {
            std::uintptr_t const    at = inner::address_in(l.cursor);
            inner::raw_handle const h{inner::to_pointer(at), inner::word_of_small(l, {at, 8}, 0, 8)};
            inner::object_records::of(inner::core_of(r)).note({h, at, 8, inner::bare_object<int>}, &l);
            return h.pointer;
        };
        void const* const next = note_next();
        CHECK(b.make<double>(2).get() == next);
        REQUIRE(in(b.id()).size() == 2);
        CHECK(in(b.id())[1].type() == "double");
        note_next();
        static_cast<void>(b.resource()->allocate(8));
        CHECK(in(b.id()).size() == 2);
    }

    TEST_CASE_FIXTURE(recording, "are told apart from what containers take") {
        batch_scope b(r);
        dice        d(1);
        std::size_t made = 0;
        for (int i = 0; i < 1000; ++i) {
            std::size_t const alignment = std::size_t{1} << d.below(8);
            static_cast<void>(b.resource()->allocate(1 + d.below(200), alignment));
            b.make<char>('c');
            ++made;
        }
        b.make<std::pmr::vector<int>>(1000u);
        CHECK(in(b.id()).size() == made + 1);
        CHECK(r.usage(b.id()).objects == made + 1);
    }

    TEST_CASE_FIXTURE(recording, "leave containers the memory that they give back") {
        registry other;
        for (registry* const in : {&r, &other}) {
            batch_scope b(*in, {.limits = {.hard = 64 * 1024}});
            for (int i = 0; i < 5000; ++i) {
                void* const p = b.resource()->allocate(64, 8);
                b.resource()->deallocate(p, 64, 8);
                if (i % 100 == 0) b.make<int>(i);
            }
            CHECK(in->usage(b.id()).bytes == 50 * 8);
        }
        batch_scope b(r);
        void* const p = b.resource()->allocate(64, 8);
        b.resource()->deallocate(p, 64, 8);
        CHECK(b.make<int>(1).get() == p);
        CHECK(in(b.id()).size() == 1);
    }

    TEST_CASE_FIXTURE(recording, "may be of a type that only their library knows") {
        batch_scope b(r);
        auto const  h = b.adopt(std::unique_ptr<opaque, ends_opaque>(begin_opaque()));
        CHECK(in(b.id()).size() == 1);
        CHECK(in(b.id())[0].address == h.get());
        CHECK(in(b.id())[0].type().ends_with("opaque"));
    }

    TEST_CASE_FIXTURE(recording, "fill holes, too") {
        batch_scope                                b(r);
        std::vector<handle<std::array<char, 256>>> all;
        for (int i = 0; i < 2000; ++i) all.push_back(b.make<std::array<char, 256>>());
        for (std::size_t i = 0; i < all.size(); i += 2) b.free(all[i]);
        for (int i = 0; i < 3000; ++i) b.make<std::array<char, 128>>();  // two fill one, up to the next that lives
        CHECK(in(b.id()).size() == 4000);
        CHECK(bytes_of(in(b.id())) == r.usage(b.id()).bytes);
    }

    TEST_CASE_FIXTURE(fresh, "are recorded from when it is said until it is said no more") {
        batch_scope b(r);
        b.make<int>(0);
        r.record_objects();
        r.record_objects();
        auto const h = b.make<int>(1);
        r.record_objects(false);
        CHECK(!tenure::detail::any_registry_records());
        for (int i = 0; i < 10; ++i) b.make<int>(2);
        CHECK(addresses(b.id()) == std::vector<void const*>{h.get()});
        {
            registry    other;
            batch_scope c(other);
            other.record_objects();
            c.make<int>(1);
            CHECK(in(b.id()).size() == 1);
            b.make<int>(3);
            CHECK(in(b.id()).size() == 1);  // not this one
        }
        CHECK(!tenure::detail::any_registry_records());
    }

    TEST_CASE_FIXTURE(fresh, "are recorded on threads that have room already") {
        std::atomic<int> turn{0};
        auto const       await = [&](int t) {
            while (turn != t) std::this_thread::yield();
        };
        std::jthread other([&] {
            batch_scope b(r);
            b.make<int>(0);
            turn = 1;
            await(2);
            for (int i = 0; i < 100; ++i) b.make<int>(i);
            CHECK(in(b.id()).size() == 100);
        });
        await(1);
        r.record_objects();
        turn = 2;
    }

    TEST_CASE_FIXTURE(recording, "are charged to limits as ever") {
        std::vector<std::size_t> told;
        batch_scope b(r, {.limits = {.soft = 400, .hard = 1000, .on_soft = [&](batch_id, std::size_t n) {
                                         told.push_back(n);
                                     }}});
        std::size_t made = 0;
        while (b.try_make<std::array<char, 96>>()) ++made;
        CHECK(made == 10);
        CHECK(told.size() == 1);
        CHECK(in(b.id()).size() == 10);
        CHECK(r.usage(b.id()).bytes == 960);
    }

    TEST_CASE_FIXTURE(recording, "that a callback makes in the room of another") {
        std::optional<batch_scope> b;
        handle<int>                within;
        b.emplace(r, batch_options{.limits = {.soft = 100, .on_soft = [&](batch_id, std::size_t) {
                                                  if (!within) within = b->make<int>(1);
                                              }}});
        auto const                     outer = b->make<std::array<char, 200>>();
        std::vector<object_info> const all   = in(b->id());
        REQUIRE(all.size() == 2);
        CHECK(all[0].address == within.get());
        CHECK(all[0].type() == "int");
        CHECK(all[1].address == outer.get());
        CHECK(all[1].bytes == 200);
        CHECK(bytes_of(all) == r.usage(b->id()).bytes);
        b.reset();
    }

    TEST_CASE_FIXTURE(recording, "that a rollback undid are gone") {
        batch_scope b(r);
        auto const  before = b.make<int>(1);
        b.checkpoint();
        b.make<int>(2);
        CHECK(in(b.id()).size() == 2);
        b.rollback();
        CHECK(addresses(b.id()) == std::vector<void const*>{before.get()});
    }

    TEST_CASE_FIXTURE(recording, "of millions that came and went are not remembered") {
        std::vector<batch_id> all;
        for (int i = 0; i < 300; ++i) {
            batch_scope b(r);
            for (int k = 0; k < 100; ++k) b.make<int>(k);
            all.push_back(b.detach());
        }
        for (batch_id const id : all) r.end_batch(id);
        batch_scope b(r);
        for (int k = 0; k < 60'000; ++k) b.make<int>(k);
        CHECK(in(b.id()).size() == 60'000);
        CHECK(tenure::detail::object_records::of(tenure::detail::core_of(r)).size() < 70'000);
    }

    TEST_CASE_FIXTURE(recording, "are not recorded where there is no memory for that") {
        if (!FAILING_ALLOCATIONS) {
            MESSAGE("skipped: a sanitizer has the allocations");
            return;
        }
        batch_scope b(r);
        b.make<int>(0);
        for (long nth = 1; nth < 10; ++nth) {
            failing::arm(failing::allocation, nth);
            auto const h = b.make<int>(1);
            failing::disarm();
            CHECK(h.alive());
        }
        CHECK(in(b.id()).size() < 10);
        b.make<int>(2);
        CHECK(in(b.id()).back().bytes == 8);
    }

    TEST_CASE_FIXTURE(recording, "are told while threads make, keep and free others") {
        std::atomic<unsigned> running{4};
        batch_id const        shared = r.new_batch();
        {
            std::vector<std::jthread> threads;
            for (unsigned t = 0; t < 4; ++t)
                threads.emplace_back([&, t] {
                    dice d(t);
                    for (int i = 0; i < (TENURE_SANITIZED ? 50 : 300); ++i) {
                        batch_scope              b(r);
                        std::vector<handle<int>> all;
                        for (std::size_t k = 0; k < d.below(100); ++k) all.push_back(b.make<int>(1));
                        std::string const text(100, 't');
                        auto const        s = b.make<std::string>(text);
                        if (!all.empty()) r.transfer_ownership(all[d.below(all.size())], shared);
                        if (all.size() > 2) static_cast<void>(b.try_free(all[0]));
                        if (d.below(2) == 0) r.transfer_ownership(s, shared);
                        std::size_t const n = in(b.id()).size();
                        CHECK(n <= all.size() + 1);
                        CHECK(n == r.usage(b.id()).objects);
                    }
                    --running;
                });
            while (running > 0) r.for_each_object(shared, [&](object_info const& o) { CHECK(o.bytes >= 8); });
        }
        CHECK(in(shared).size() == r.usage(shared).objects);
        r.end_batch(shared);
    }

    TEST_CASE_FIXTURE(recording, "are told in a forked child") {
        batch_scope   b(r);
        auto const    h   = b.make<int>(1);
        ::pid_t const pid = ::fork();
        if (pid == 0) {
            bool const before = addresses(b.id()) == std::vector<void const*>{h.get()};
            b.make<int>(2);
            ::_exit(before && in(b.id()).size() == 2 ? 0 : 1);
        }
        int status = -1;
        REQUIRE(::waitpid(pid, &status, 0) == pid);
        CHECK(status == 0);
        CHECK(in(b.id()).size() == 1);
    }
}

TEST_SUITE("an object's name") {
    TEST_CASE_FIXTURE(fresh, "is the object's, wherever that goes, and goes with it") {
        batch_scope outer(r);
        handle<int> h;
        {
            batch_scope b(r);
            h            = b.make<int>(1);
            auto const a = b.make<double[]>(3u);
            b.make<int>(2);
            r.name_object(h, "routes");
            r.name_object(a, "weights");
            std::vector<object_info> const all = in(b.id());
            REQUIRE(all.size() == 2);
            CHECK(all[0].name == "routes");
            CHECK(all[0].type() == "int");
            CHECK(all[0].bytes == 8);
            CHECK(all[1].name == "weights");
            CHECK(all[1].type() == "double []");
            r.name_object(h, "old routes");
            b.keep(h);
        }
        std::vector<object_info> const all = in(outer.id());
        REQUIRE(all.size() == 1);
        CHECK(all[0].name == "old routes");
        CHECK(all[0].address == h.get());
        outer.free(h);
        CHECK(in(outer.id()).empty());
        check_throws(errc::stale_handle, {"name an object"}, [&] { r.name_object(h, "x"); });
        CHECK(r.try_name_object(h, "x").error() == errc::stale_handle);
    }

    TEST_CASE_FIXTURE(recording, "stands beside where it was made") {
        batch_scope b(r);
        auto const  h = b.make<int>(1);
        r.name_object(h, "one");
        std::vector<object_info> const all = in(b.id());
        REQUIRE(all.size() == 1);
        CHECK(all[0].name == "one");
        CHECK(!all[0].made_at.empty());
    }

    TEST_CASE_FIXTURE(fresh, "can be that of one that has an end, or was adopted") {
        int         elsewhere = 5;
        batch_scope b(r);
        auto const  a = b.adopt(&elsewhere, [](int*) {});
        auto const  s = b.make<std::string>("s");
        r.name_object(a, "adopted");
        r.name_object(s, "text");
        std::vector<object_info> all = in(b.id());
        std::ranges::sort(all, {}, &object_info::name);
        REQUIRE(all.size() == 2);
        CHECK(all[0].name == "adopted");
        CHECK(all[0].address == &elsewhere);
        CHECK(all[0].type() == "int");
        CHECK(all[0].bytes >= 24 + 2 * sizeof(void*));
        CHECK(all[1].name == "text");
        CHECK(all[1].address == s.get());
        std::jthread([&] { CHECK(in(b.id()).size() == 2); }).join();
        b.free(a);
        CHECK(in(b.id()).size() == 1);
    }

    TEST_CASE_FIXTURE(fresh, "may be given by a handle of a base") {
        batch_scope               b(r);
        auto const                whole = b.make<derived_of_both>();
        handle<second_base> const part  = whole;
        r.name_object(part, "both");
        std::vector<object_info> const all = in(b.id());
        REQUIRE(all.size() == 1);
        CHECK(all[0].name == "both");
        CHECK(all[0].address == whole.get());
        CHECK(all[0].type().ends_with("derived_of_both"));
        std::jthread([&] { CHECK(in(b.id()).size() == 1); }).join();
    }

    TEST_CASE_FIXTURE(fresh, "does not change the order in which objects were made") {
        batch_scope b(r);
        auto const  first = b.make<std::string>("before");
        r.record_objects();
        auto const second = b.make<int>(1);
        r.name_object(first, "first");
        CHECK(addresses(b.id()) == std::vector<void const*>{first.get(), second.get()});
    }

    TEST_CASE_FIXTURE(recording, "is not that of what was to be made there") {
        struct giving_up {
            explicit giving_up(registry& r) {
                r.record_objects(false);
                throw std::runtime_error("no");
            }
            std::array<char, 60> room{};
        };
        batch_scope b(r);
        b.make<int>(1);
        CHECK_THROWS_AS(b.make<giving_up>(r), std::runtime_error);
        auto const h = b.make<double>(1);
        CHECK(in(b.id()).size() == 1);
        r.name_object(h, "d");
        REQUIRE(in(b.id()).size() == 2);
        CHECK(in(b.id())[0].type() == "double");
        CHECK(in(b.id())[0].bytes == 8);
    }

    TEST_CASE_FIXTURE(fresh, "is not that of another, later at the same place") {
        batch_scope b(r);
        auto const  before = b.make<int>(1);
        void const* place  = before.get();
        r.name_object(before, "old");
        b.clear();
        auto const after = b.make<double>(1);
        REQUIRE(after.get() == place);
        CHECK(in(b.id()).empty());
        r.name_object(after, "new");
        std::vector<object_info> const all = in(b.id());
        REQUIRE(all.size() == 1);
        CHECK(all[0].name == "new");
        CHECK(all[0].type() == "double");
    }

    TEST_CASE_FIXTURE(fresh, "is given by its own registry") {
        registry    other;
        batch_scope b(r);
        auto const  h = b.make<int>(1);
        check_throws(errc::not_owner, {}, [&] { other.name_object(h, "x"); });
    }
}

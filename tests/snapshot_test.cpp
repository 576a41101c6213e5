// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <tenure/json.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "throws.hpp"

namespace {

using tenure::batch_info;
using tenure::batch_scope;
using tenure::batch_status;
using tenure::cleanup;
using tenure::registry;
using tenure::snapshot;

batch_info const& find(snapshot const& s, tenure::batch_id id) {
    for (batch_info const& b : s.batches)
        if (b.id == id) return b;
    FAIL("batch not in the snapshot");
    return s.batches.front();
}

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> out;
    while (!text.empty()) {
        auto const end = text.find('\n');
        out.push_back(text.substr(0, end));
        text.remove_prefix(end + 1);
    }
    return out;
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

}  // namespace

TEST_SUITE("snapshot") {
    TEST_CASE_FIXTURE(accounting, "a registry at rest has its root alone") {
        registry       r;
        snapshot const s = r.snapshot();
        REQUIRE(s.batches.size() == 1);
        CHECK(s.batches[0].id == r.root());
        CHECK(s.batches[0].name == "root");
        CHECK(s.batches[0].parent == tenure::batch_id{});
        CHECK(s.batches[0].depth == 0);
        CHECK(s.memory.held == 0);
        CHECK(s.foreign_ends == 0);
    }

    TEST_CASE_FIXTURE(accounting,
                      "says of each batch what it is, where and when it was opened, and what it holds") {
        registry    r;
        unsigned    line = __LINE__ + 1;
        batch_scope b{r, {.name = "request"}};
        b.make<char[]>(1000);
        b.free(b.make<char[]>(2000));
        b.make<std::string>("x");
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        snapshot const    s    = r.snapshot();
        batch_info const& info = find(s, b.id());
        CHECK(info.name == "request");
        CHECK(info.parent == r.root());
        CHECK(info.status == batch_status::active);
        CHECK(info.guarded);
        CHECK(info.depth == 1);
        CHECK(info.age >= std::chrono::milliseconds(10));
        CHECK(info.age < std::chrono::minutes(1));
        CHECK(has(info.where.file_name(), "snapshot_test.cpp"));
        CHECK(info.where.line() == line);
        CHECK(info.usage == b.usage());
        CHECK(info.usage.objects == 2);
        CHECK(info.usage.bytes >= 1000 + sizeof(std::string));
        CHECK(info.usage.peak >= info.usage.bytes + 1000);
        CHECK(info.usage.retained == 64u << 10);
        CHECK(s.memory.held == info.usage.retained);
    }

    TEST_CASE_FIXTURE(accounting, "every way to open a batch says where") {
        registry   r;
        auto const here = [&](tenure::batch_id id, unsigned line) {
            CHECK(find(r.snapshot(), id).where.line() == line);
        };
        batch_scope a{r};
        here(a.id(), __LINE__ - 1);
        batch_scope b;
        here(b.id(), __LINE__ - 1);
        batch_scope c{{.name = "c"}};
        here(c.id(), __LINE__ - 1);
        batch_scope d{tenure::below(a)};
        here(d.id(), __LINE__ - 1);
        auto const id = r.new_batch();
        here(id, __LINE__ - 1);
        tenure::with_batch([&](batch_scope& e) { here(e.id(), __LINE__); });
        r.end_batch(id);
    }

    TEST_CASE_FIXTURE(accounting, "a tree: parents before children, older before newer") {
        registry    r;
        batch_scope top{r, {.name = "top"}};
        auto const  first  = r.new_batch({.name = "first"}, top.id());
        auto const  below  = r.new_batch({.name = "below first"}, first);
        auto const  second = r.new_batch({.name = "second"}, top.id());
        std::string order;
        for (batch_info const& b : r.snapshot().batches) order += std::to_string(b.depth) + b.name + " ";
        CHECK(order == "0root 1top 2first 3below first 2second ");
        (void)below;
        (void)second;
    }

    TEST_CASE_FIXTURE(accounting, "of a batch and all below it") {
        registry    r;
        batch_scope other{r, {.name = "other"}};
        batch_scope top{r, {.name = "top"}};
        auto const  first = r.new_batch({.name = "first"}, top.id());
        auto const  below = r.new_batch({.name = "below first"}, first);
        auto const  aside = r.new_batch({.name = "aside"}, other.id());
        for (tenure::batch_id const id : {first, below, aside}) {
            auto const in = r.enter(id);
            tenure::make<int>(1);
            tenure::make_buffer<int>(100);
        }
        auto const order_of = [](snapshot const& s) {
            std::string order;
            for (batch_info const& b : s.batches) order += std::to_string(b.depth) + b.name + " ";
            return order;
        };
        auto const shown = [&](tenure::batch_id id) { return order_of(r.snapshot(id)); };
        CHECK(shown(top.id()) == "0top 1first 2below first ");
        CHECK(r.snapshot(other.id()).batches.size() == 5);
        CHECK(r.snapshot(aside).batches.size() == 1);
        CHECK(shown(below) == "0below first ");
        CHECK(shown(r.root()) == order_of(r.snapshot()));
        CHECK(r.snapshot(top.id()).to_text().find("below first") != std::string::npos);
        REQUIRE(r.snapshot(top.id()).stores.size() == 1);
        CHECK(r.snapshot(top.id()).stores[0].buffers == 2);
        CHECK(r.snapshot(below).batches[0].parent == first);

        auto const sum = r.usage(top.id(), tenure::recursive), one = r.usage(first);
        CHECK(sum.objects == 4);
        CHECK(sum.buffers == 2);
        CHECK(sum.buffer_bytes == 800);
        CHECK(sum.bytes == 2 * one.bytes);
        CHECK(sum.retained == 2 * one.retained);
        CHECK(sum.peak == 2 * one.peak);
        CHECK(r.usage(below, tenure::recursive) == r.usage(below));
        CHECK(r.usage(r.root(), tenure::recursive).objects == 6);
        r.end_batch(first);
        CHECK(r.usage(first, tenure::recursive) == tenure::batch_usage{});
        CHECK(r.snapshot(first).batches.empty());
        CHECK(r.usage(top.id(), tenure::recursive).objects == 0);
        check_throws(tenure::errc::no_such_batch, {"usage of batch"},
                     [&] { registry::global().usage(top.id(), tenure::recursive); });
        check_throws(tenure::errc::no_such_batch, {"snapshot of batch"},
                     [&] { registry::global().snapshot(top.id()); });
    }

    TEST_CASE_FIXTURE(accounting, "of a part does not get in the way of who must be alone in it") {
        registry          r;
        batch_scope       b{r};
        std::atomic<bool> over{false};
        std::thread       watcher([&] {
            while (!over) {
                static_cast<void>(r.usage(b.id(), tenure::recursive));
                static_cast<void>(r.snapshot(b.id()));
                static_cast<void>(r.status(b.id()));
            }
        });
        int               refused = 0;
        for (int i = 0; i < 2000; ++i) {
            b.make<std::string>("of this round");
            refused += !b.try_clear();
        }
        over = true;
        watcher.join();
        CHECK(refused == 0);
    }

    TEST_CASE_FIXTURE(accounting, "each status") {
        registry               r;
        auto const             active   = r.new_batch();
        tenure::batch_id const retained = [&] {
            batch_scope b{r, {.cleanup = cleanup::manual}};
            return b.id();
        }();
        auto ending = std::make_unique<batch_scope>(r);
        {
            auto const lane = ending->lane();
            ending->end();
            snapshot const s = r.snapshot();
            CHECK(find(s, active).status == batch_status::active);
            CHECK_FALSE(find(s, active).guarded);
            CHECK(find(s, retained).status == batch_status::retained);
            CHECK(find(s, ending->id()).status == batch_status::ending);
        }
        for (batch_info const& b : r.snapshot().batches) CHECK(b.id != ending->id());  // done: no longer shown
        r.destroy_batch(retained);
        r.end_batch(active);
        CHECK(r.snapshot().batches.size() == 1);
    }

    TEST_CASE_FIXTURE(accounting, "as text: a line a batch, indented by depth") {
        registry    r;
        batch_scope top{r, {.name = "top"}};
        batch_scope nameless;
        auto const  lane = nameless.lane();
        nameless.make<char[]>(3'000'000);
        std::string const text  = r.snapshot().to_text();
        auto const        lines = lines_of(text);
        CAPTURE(text);
        REQUIRE(lines.size() == 4);
        CHECK(lines[0].starts_with("held "));
        CHECK(has(lines[0], "cached"));
        CHECK(has(lines[0], "mapped"));
        CHECK(lines[1].starts_with("root #"));
        CHECK(lines[2].starts_with("  top " + to_text(top.id()) + " active"));
        CHECK(lines[3].starts_with("    (no name) #"));
        CHECK(has(lines[3], "1 objects, 2.8 MiB in use"));
        CHECK(has(lines[3], "retained"));
        CHECK(has(lines[3], "peak 2.8 MiB"));
        CHECK(has(lines[3], "age"));
        CHECK(has(lines[3], "snapshot_test.cpp:"));
    }

    TEST_CASE_FIXTURE(accounting, "as JSON") {
        registry       r;
        unsigned const line = __LINE__ + 1;
        batch_scope    b{r, {.name = "quote \" and \xff byte"}};
        b.make<int>(1);
        auto const json = nlohmann::json::parse(r.snapshot().to_json());
        REQUIRE(json.at("batches").size() == 2);
        auto const& j = json.at("batches")[1];
        CHECK(j.at("id") == to_text(b.id()));
        CHECK(j.at("parent") == to_text(r.root()));
        CHECK(json.at("batches")[0].at("parent").is_null());
        CHECK(j.at("depth") == 1);
        CHECK(j.at("name") == "quote \" and \xef\xbf\xbd byte");
        CHECK(j.at("status") == "active");
        CHECK(j.at("guarded") == true);
        CHECK(j.at("age_ns").is_number());
        CHECK(has(j.at("opened").at("file").get<std::string>(), "snapshot_test.cpp"));
        CHECK(j.at("opened").at("line") == line);
        CHECK(j.at("opened").at("function").is_string());
        CHECK(j.at("objects") == 1);
        CHECK(j.at("bytes") == 8);
        CHECK(j.at("retained") == 65'536);
        CHECK(j.at("peak") == 8);
        CHECK(json.at("memory").at("held") == 65'536);
        CHECK(json.at("memory").at("cached").is_number());
        CHECK(json.at("memory").at("mapped").is_number());
        CHECK(json.at("foreign_ends") == 0);
    }

    TEST_CASE_FIXTURE(accounting, "what was taken stays as it was") {
        registry r;
        snapshot s;
        {
            batch_scope b{r, {.name = "gone"}};
            b.make<int>(1);
            s = r.snapshot();
        }
        CHECK(s.batches[1].name == "gone");
        CHECK(s.batches[1].usage.objects == 1);
        CHECK(r.snapshot().batches.size() == 1);
    }

    TEST_CASE_FIXTURE(accounting, "batches that end, and get another parent, while it is taken") {
        // The clock is read for the first batch with a deadline, after the batches were found.
        static std::function<void()> meanwhile;
        registry                     r{{.clock = []() noexcept {
            if (auto const act = std::exchange(meanwhile, nullptr)) act();
            return std::uint64_t{1};
        }}};
        auto const                   timed = r.new_batch({.name = "timed", .timeout = std::chrono::seconds(1)});
        std::this_thread::sleep_for(std::chrono::milliseconds(20));  // so that it comes before those below
        auto const parent = r.new_batch({.name = "parent"});
        auto const child  = r.new_batch({.name = "child", .cleanup = cleanup::manual}, parent);
        auto const last   = r.new_batch({.name = "last"});
        using shown       = std::multiset<std::string>;  // those that were opened within one tick come in any order
        auto const all    = [&] {
            shown                         out;
            std::vector<tenure::batch_id> above;
            for (batch_info const& b : r.snapshot().batches) {
                above.resize(b.depth);
                out.insert(std::to_string(b.depth) + b.name);
                CHECK(b.parent == (above.empty() ? tenure::batch_id{} : above.back()));
                above.push_back(b.id);
            }
            return out;
        };
        CHECK(all() == shown{"0root", "1timed", "1parent", "2child", "1last"});
        meanwhile = [&] { r.end_batch(parent); };
        CHECK(all() == shown{"0root", "1timed", "1child", "1last"});
        CHECK(r.status(child) == batch_status::retained);
        CHECK(find(r.snapshot(), child).parent == r.root());
        meanwhile = [&] {
            r.end_batch(last);
            r.new_batch({.name = "not yet"});  // in the record of the one that ended
        };
        CHECK(all() == shown{"0root", "1timed", "1child"});
        CHECK(all() == shown{"0root", "1timed", "1child", "1not yet"});
        r.destroy_batch(child);
        r.end_batch(timed);
        for (batch_info const& b : r.snapshot().batches)
            if (b.name == "not yet") r.end_batch(b.id);
    }

    TEST_CASE_FIXTURE(accounting, "a batch whose time is up is expired, at the moment of the snapshot") {
        static std::uint64_t now = 1;
        now                      = 1;
        registry   r{{.clock = []() noexcept { return now; }}};
        auto const soon  = r.new_batch({.timeout = std::chrono::nanoseconds(10)});
        auto const later = r.new_batch({.timeout = std::chrono::nanoseconds(100)});
        CHECK(find(r.snapshot(), soon).status == batch_status::active);
        now                 = 50;
        snapshot const then = r.snapshot();
        CHECK(find(then, soon).status == batch_status::expired);
        CHECK(find(then, later).status == batch_status::active);
        r.cancel(later);
        r.end_batch(soon);
        CHECK(r.snapshot().batches.size() == 1);
    }

    TEST_CASE_FIXTURE(accounting, "an ended batch waits for those directly below it") {
        registry               r;
        auto const             top    = r.new_batch({.name = "top"});
        auto const             middle = r.new_batch({.name = "middle"}, top);
        auto const             inside = r.enter(middle);
        tenure::batch_id const beside = r.new_batch({.name = "beside"}, top);
        r.end_batch(top);
        snapshot const s = r.snapshot();
        CHECK(find(s, top).waits_for == std::vector{middle});
        CHECK(r.waits_for(top) == std::vector{middle});
        CHECK(find(s, middle).waits_for.empty());
        CHECK(r.status(beside) == batch_status::done);
    }

    TEST_CASE_FIXTURE(accounting, "as text: whatever the figures") {
        batch_info b;
        b.id              = {12345678901234567890u};
        b.name            = "big";
        b.usage.objects   = 1000;
        b.usage.bytes     = 1023;
        b.usage.retained  = 1024;
        b.usage.peak      = (std::size_t{1} << 40) + (std::size_t{1} << 39);
        b.usage.paged_out = static_cast<std::size_t>(-1);
        b.shared_by       = 2;
        b.age             = std::chrono::milliseconds(1501);
        for (std::uint64_t i = 1; i <= 10; ++i) b.waits_for.push_back({i});
        std::string const line = tenure::detail::describe(b);
        CHECK(has(
            line,
            "big #52366034.183964951354 active, 1000 objects, 1023 B in use, 1.0 KiB retained, peak 1.5 TiB, "));
        CHECK(has(line,
                  " TiB paged out, shared by 2, waits for #1.0 #2.0 #3.0 #4.0 #5.0 #6.0 #7.0 #8.0 and 2 more, age "
                  "1501 ms, opened at "));
        snapshot s;
        for (int i = 0; i < 1000; ++i) s.batches.push_back(b);
        CHECK(lines_of(s.to_text()).size() == 1001);
        CHECK(std::string(lines_of(s.to_text())[700]) + "\n" == line);
    }

    TEST_CASE_FIXTURE(accounting, "of a very deep tree, is still readable") {
        registry                                  r;
        std::vector<std::unique_ptr<batch_scope>> open;
        for (int i = 0; i < 5000; ++i) open.push_back(std::make_unique<batch_scope>(r));
        snapshot const s = r.snapshot();
        CHECK(s.batches.size() == 5001);
        CHECK(s.batches.back().depth == 5000);
        CHECK(s.to_text().size() < 5001 * 500);  // not a triangle of blanks
        while (!open.empty()) open.pop_back();
    }
}

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <tenure/json.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"

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
        CHECK(lines[2].starts_with("  top #" + std::to_string(top.id().value) + " active"));
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
        CHECK(j.at("id") == b.id().value);
        CHECK(j.at("parent") == r.root().value);
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

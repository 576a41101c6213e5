// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <coroutine>
#include <cstdint>
#include <source_location>
#include <sstream>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <tenure/format.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "throws.hpp"

namespace routes {

struct path {
    std::uint64_t hops = 1;
};
struct unknown;  // never defined

struct task {
    struct promise_type {
        task               get_return_object() { return {}; }
        std::suspend_never initial_suspend() { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void               return_void() {}
        void               unhandled_exception() {}
    };
};

task find(int, std::string& snapshot) {
    tenure::batch_scope const b{{.name = "in a coroutine"}};
    snapshot = tenure::registry::global().snapshot().to_text();
    co_return;
}

struct finder {
    task find(int, std::string& snapshot) const {
        tenure::batch_scope const b{{.name = "in a coroutine"}};
        snapshot = tenure::registry::global().snapshot().to_text();
        co_return;
    }
};

}  // namespace routes

namespace {

using tenure::batch_scope;
using tenure::errc;
using tenure::handle;

template <class T>
std::string streamed(T const& t) {
    std::ostringstream out;
    out << t;
    return out.str();
}

std::string here(unsigned line) { return std::string("opened at ") + __FILE__ + ":" + std::to_string(line) + ","; }

}  // namespace

TEST_SUITE("messages") {
    TEST_CASE_FIXTURE(accounting, "a stale handle's names its type, and the batch that it was of") {
        handle<routes::path> h;
        unsigned             line = 0;
        {
            batch_scope hop{{.name = "hop 1"}};
            line = __LINE__ - 1;
            h    = hop.make<routes::path>();
        }
        std::string const at = here(line);
        check_throws(errc::stale_handle, {"handle<routes::path> of batch 'hop 1' (#", at, "freed at its end"},
                     [&] { (void)h->hops; });
        check_throws(errc::stale_handle, {"handle<routes::path> of batch 'hop 1' (#"},
                     [&] { (void)*tenure::compact(h); });
    }

    TEST_CASE_FIXTURE(accounting, "of an object that was freed early, too") {
        batch_scope    hop{{.name = "hop 2"}};
        unsigned const line = __LINE__ - 1;
        auto const     h    = hop.make<std::string>("text");
        auto const     a    = hop.make<routes::path[]>(3);
        hop.free(h);
        hop.free(a);
        std::string const at = here(line);
        check_throws(errc::stale_handle, {"of batch 'hop 2' (#", at, "freed before its end"},
                     [&] { (void)h->size(); });
        check_throws(errc::stale_handle, {"handle<routes::path", "> of batch 'hop 2'"}, [&] { (void)a[0]; });
    }

    TEST_CASE_FIXTURE(accounting, "names no batch that has only the memory or the record of the right one") {
        handle<routes::path> h;
        {
            batch_scope hop{{.name = "the right one"}};
            h = hop.make<routes::path>();
        }
        auto const message = [&] {
            try {
                (void)*h;
            } catch (tenure::error const& e) {
                return std::string(e.what());
            }
            return std::string();
        };
        {
            batch_scope other{{.name = "another"}};  // with its record, and nothing else
            CHECK(message().find("another") == std::string::npos);
        }
        CHECK(message().find("another") == std::string::npos);
        {
            batch_scope other{{.name = "another"}};
            other.make<routes::path>();
            CHECK(message().find("another") == std::string::npos);
            CHECK(message().find("the right one") == std::string::npos);
            CHECK(message().find("handle<routes::path>: stale") != std::string::npos);
        }
        CHECK(message().find("another") == std::string::npos);
        CHECK(message().find("handle<routes::path>: stale") != std::string::npos);
    }

    TEST_CASE_FIXTURE(accounting, "a null handle is said to be null, of a type that nobody has defined, too") {
        handle<routes::unknown> const none;
        check_throws(errc::stale_handle, {"null handle<routes::unknown>, which was given no object"},
                     [&] { (void)none.operator->(); });
    }

    TEST_CASE_FIXTURE(accounting, "a batch that ended early, and whose objects are still there, is over") {
        batch_scope b{{.name = "stopped"}};
        auto const  h = b.make<routes::path>();
        tenure::registry::global().cancel(b.id());
        check_throws(errc::cancelled, {"handle<routes::path> of batch 'stopped'"}, [&] {
            b.end();
            (void)*h;
        });
    }

    TEST_CASE_FIXTURE(accounting,
                      "the function that opened a batch is named as it was written, in coroutines, too") {
        std::string text;
        routes::find(1, text);
        CHECK(text.find(std::string(" in ")) != text.npos);
        CHECK(text.find("find(int, std::") != text.npos);
        CHECK(text.find("Frame") == text.npos);
        CHECK(text.find("_ZN") == text.npos);
        text.clear();
        routes::finder{}.find(1, text);
        CHECK(text.find("routes::finder::find(int, std::") != text.npos);
        CHECK(text.find("Frame") == text.npos);
        CHECK(text.find("_ZN") == text.npos);
    }

    TEST_CASE_FIXTURE(accounting, "handles, ids, errors and buffers print") {
        batch_scope b;
        auto const  h = b.make<routes::path>();
        auto const  a = b.make<int[]>(3);
        auto const  x = b.make_buffer<int>(12);
        auto const  c = tenure::compact(h);

        std::ostringstream address;
        address << static_cast<void const*>(h.get());
        CHECK(streamed(h) == address.str());
        CHECK(streamed(c) == address.str());
        CHECK(streamed(a).starts_with("0x"));
        CHECK(streamed(x) == "buffer of 12");
        CHECK(streamed(b.id()) == to_text(b.id()));
        CHECK(streamed(tenure::batch_id{std::uint64_t{3} << 26 | 47}) == "#47.3");
        CHECK(streamed(tenure::batch_id{~std::uint64_t{0}}) == "#67108863.274877906943");
        CHECK(streamed(b.status()) == "active");
        CHECK(streamed(errc::stale_handle) == "stale handle");
        CHECK(streamed(handle<routes::unknown>()) == "null");
        CHECK(streamed(tenure::buffer<int>()) == "null");
        b.free(h);
        b.free(x);
        CHECK(streamed(h) == address.str() + " (stale)");
        CHECK(streamed(c) == address.str() + " (stale)");
        CHECK(streamed(x) == "buffer of 12 (stale)");
        std::ostringstream wide;
        wide.width(8);
        wide << handle<int>();
        CHECK(wide.str() == "    null");
#ifdef __cpp_lib_format
        CHECK(std::format("{} {} {:>6}", h, b.id(), handle<int>()) ==
              streamed(h) + ' ' + streamed(b.id()) + "   null");
#endif
    }
}

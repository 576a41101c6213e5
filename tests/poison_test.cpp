// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Under AddressSanitizer even a raw pointer into memory that is gone is reported.

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "accounting.hpp"

#if !TENURE_ASAN

TEST_CASE("poison") {
    std::puts("skipped: built without AddressSanitizer");
    std::fflush(stdout);
    std::_Exit(77);
}

#else

#include <sanitizer/asan_interface.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using tenure::batch_scope;
using tenure::handle;

/// Whether the sanitizer lets nobody touch any of the bytes.
bool gone(void const* p, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i)
        if (!__asan_address_is_poisoned(static_cast<char const*>(p) + i)) return false;
    return true;
}

bool usable(void const* p, std::size_t n) { return !__asan_region_is_poisoned(const_cast<void*>(p), n); }

template <class T>
bool gone(T const* p) {
    return gone(p, sizeof(T));
}
template <class T>
bool usable(T const* p) {
    return usable(p, sizeof(T));
}

/// What a child process that does `f` says on stderr before it dies of it; empty if it lives.
std::string last_words(std::function<void()> const& f) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    ::pid_t const child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        ::dup2(ends[1], STDERR_FILENO);
        f();
        std::_Exit(0);
    }
    ::close(ends[1]);
    std::string words;
    char        buffer[4096];
    for (ssize_t n = 0; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;)
        words.append(buffer, static_cast<std::size_t>(n));
    ::close(ends[0]);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    return status == 0 ? "" : words;
}

template <class T>
void check_reported(T const* p) {
    auto const words = last_words([&] { (void)*static_cast<T const volatile*>(p); });
    CAPTURE(words);
    CHECK(words.find("use-after-poison") != std::string::npos);
    CHECK(words.find("READ of size " + std::to_string(sizeof(T))) != std::string::npos);
}

struct with_end {
    ~with_end() { number = -1; }
    long number = 3;
};

}  // namespace

TEST_SUITE("poison") {
    TEST_CASE_FIXTURE(accounting, "what an ended batch owned") {
        int const*         plain  = nullptr;
        with_end const*    ends   = nullptr;
        char const*        large  = nullptr;
        int const*         vector = nullptr;
        std::string const* array  = nullptr;
        {
            batch_scope b;
            plain  = b.make<int>(1).get();
            ends   = b.make<with_end>().get();
            large  = b.make<char[]>(1'000'000).get();
            vector = static_cast<int*>(b.resource()->allocate(4000));
            array  = b.make<std::string[]>(10).get();
            CHECK(usable(plain));
            CHECK(usable(ends));
            CHECK(usable(large, 1'000'000));
            CHECK(usable(vector, 4000));
            CHECK(usable(array, 10 * sizeof(std::string)));
        }
        CHECK(gone(plain));
        CHECK(gone(ends));
        CHECK(gone(large, 1'000'000));
        CHECK(gone(vector, 4000));
        CHECK(gone(array, 10 * sizeof(std::string)));
        check_reported(plain);
        check_reported(&ends->number);
        check_reported(large + 999'999);
        check_reported(vector + 500);
    }

    TEST_CASE_FIXTURE(accounting, "what was freed, and nothing beside it") {
        batch_scope b;
        auto const  before = b.make<with_end>(), h = b.make<with_end>(), after = b.make<with_end>();
        auto const  plain = b.make<int>(1);
        auto const  large = b.make<char[]>(100'000);
        auto* const p     = h.get();
        auto* const q     = plain.get();
        auto* const r     = large.get();
        b.free(h);
        b.free(plain);
        b.free(large);
        CHECK(gone(p));
        CHECK(gone(q));
        CHECK(gone(r, 100'000));
        CHECK(usable(before.get()));
        CHECK(usable(after.get()));
        check_reported(&p->number);
        check_reported(q);
    }

    TEST_CASE_FIXTURE(accounting, "what is beside a kept object in its slab") {
        batch_scope              outer;
        std::vector<handle<int>> all;
        std::vector<int const*>  at;
        {
            batch_scope b;
            for (int i = 0; i < 1000; ++i) all.push_back(b.make<int>(i));
            for (auto const& h : all) at.push_back(h.get());
            for (std::size_t i = 0; i < all.size(); i += 10) b.keep(all[i]);
        }
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (i % 10 == 0) CHECK(usable(at[i]));
            else CHECK(gone(at[i]));
        }
        check_reported(at[1]);
        for (int i = 0; i < 20'000; ++i) outer.make<int>(i);  // the holes are filled again
        for (std::size_t i = 0; i < all.size(); i += 10) CHECK(*all[i] == static_cast<int>(i));
        outer.end();
        for (int const* p : at) CHECK(gone(p));
    }

    TEST_CASE_FIXTURE(accounting, "memory that no object has been made in yet") {
        batch_scope b;
        auto const  h = b.make<std::array<char, 13>>();
        CHECK(usable(h.get()));
        CHECK(gone(h->data() + 16, 64));
        check_reported(h->data() + 16);
    }

    TEST_CASE_FIXTURE(accounting, "memory of an object whose constructor threw") {
        static int const* at = nullptr;
        struct refuses {
            refuses() {
                at = &member;
                throw std::runtime_error("no");
            }
            int member = 1;
        };
        batch_scope b;
        CHECK_THROWS(b.make<refuses>());
        CHECK(gone(at));
        auto const next = b.make<int>(2);
        CHECK(usable(next.get()));
    }

    TEST_CASE_FIXTURE(accounting, "what a container gave back") {
        batch_scope b;
        auto* const first  = static_cast<char*>(b.resource()->allocate(100));
        auto* const second = static_cast<char*>(b.resource()->allocate(100));
        b.resource()->deallocate(first, 100);
        CHECK(gone(first, 100));
        CHECK(usable(second, 100));
        check_reported(first);
    }

    TEST_CASE_FIXTURE(accounting, "and memory that nobody but a slab knows of is no leak") {
        batch_scope b;
        for (int i = 0; i < 100; ++i) b.make<std::string>(std::size_t{1000}, 'x');
        CHECK(__lsan_do_recoverable_leak_check() == 0);
    }

    TEST_CASE_FIXTURE(accounting, "nothing, once a registry has given its addresses back") {
        void* p = nullptr;
        {
            tenure::registry r;
            batch_scope      b{r};
            p = b.make<char[]>(1000).get();
        }
        CHECK(usable(p, 1000));  // somebody else's now
    }
}

#endif

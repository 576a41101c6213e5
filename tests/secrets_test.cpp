// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Tokens and keys: nothing of them is left in memory that goes back to the heap, or on a stack.

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <tenure/remote/client.hpp>
#include <tenure/remote/trust.hpp>

#include "remote/house.hpp"
#include "temporary.hpp"

namespace {

// Each is found as a whole nowhere but where the library puts it.
constexpr char short_token[] = "k8#Zq2!w", long_token[] = "R7vJ-0qLm4Tz9Xs1Yb6Nc3Hd8Gf5Kp2WaUeQi";

std::atomic<bool> looks{false};
std::atomic<int>  found{0};

bool has_secret(void const* p, std::size_t n) noexcept {
    return ::memmem(p, n, short_token, sizeof short_token - 1) || ::memmem(p, n, long_token, sizeof long_token - 1);
}

void* allocate_or_null(std::size_t n) noexcept { return std::calloc(1, n ? n : 1); }
void* allocate(std::size_t n) {
    if (void* const p = allocate_or_null(n)) return p;
    throw std::bad_alloc();
}
void give_back(void* p) noexcept {
    if (p && looks && has_secret(p, ::malloc_usable_size(p))) ++found;
    std::free(p);
}

/// Counts the pieces of memory that go back to the heap with a token in them.
int left_behind(std::function<void()> const& f) {
    found = 0;
    looks = true;
    f();
    looks = false;
    return found;
}

/// Runs f on a stack that can be looked at afterwards. Returns whether a token is left on it.
bool left_on_stack(std::function<void()> const& f) {
    constexpr std::size_t bytes = std::size_t{1} << 20;
    void* const stack = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(stack != MAP_FAILED);
    ::pthread_attr_t how;
    ::pthread_attr_init(&how);
    REQUIRE(::pthread_attr_setstack(&how, stack, bytes) == 0);
    ::pthread_t thread;
    auto const  run = [](void* what) -> void* {
        (*static_cast<std::function<void()> const*>(what))();
        return nullptr;
    };
    REQUIRE(::pthread_create(&thread, &how, run, const_cast<std::function<void()>*>(&f)) == 0);
    ::pthread_join(thread, nullptr);
    ::pthread_attr_destroy(&how);
    bool const left = has_secret(stack, bytes);
    ::munmap(stack, bytes);
    return left;
}

/// A file of tokens, written without a copy of them.
class token_file {
public:
    token_file() : path_((dir_.path() / "tokens").string()) {
        int const fd = ::open(path_.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
        REQUIRE(fd >= 0);
        for (std::string_view const part :
             {std::string_view("ann:"), {short_token}, {"\n# comment\nbob:"}, {long_token}, {"\n"}})
            REQUIRE(::write(fd, part.data(), part.size()) == static_cast<::ssize_t>(part.size()));
        ::close(fd);
    }
    std::string const& path() const noexcept { return path_; }

private:
    temporary_directory dir_;
    std::string         path_;
};

}  // namespace

void* operator new(std::size_t n) { return allocate(n); }
void* operator new[](std::size_t n) { return allocate(n); }
void* operator new(std::size_t n, std::nothrow_t const&) noexcept { return allocate_or_null(n); }
void* operator new[](std::size_t n, std::nothrow_t const&) noexcept { return allocate_or_null(n); }
void  operator delete(void* p) noexcept { give_back(p); }
void  operator delete[](void* p) noexcept { give_back(p); }
void  operator delete(void* p, std::size_t) noexcept { give_back(p); }
void  operator delete[](void* p, std::size_t) noexcept { give_back(p); }

TEST_CASE("what looks for tokens finds them") {
    CHECK(left_behind([] { std::make_unique<std::string>(std::string("a token: ") + long_token).reset(); }) > 0);
    CHECK(left_on_stack([] {
        char part[8192];  // what the end of a thread puts on its stack lies above
        ::memcpy(part, long_token, sizeof long_token);
        asm volatile("" : : "r"(part) : "memory");  // so the copy is made
    }));
}

TEST_CASE("tokens from a file: copies, moves and the end leave nothing behind") {
    token_file const file;
    auto const       use = [&] {
        tenure::tokens all   = tenure::tokens::from_file(file.path());
        bool const     right = all.first() == short_token;
        REQUIRE(right);
        for (int i = 0; i < 20; ++i) all.add("another", long_token);  // it grows, and what was there moves
        tenure::tokens const copy = all;
        tenure::tokens       moved(std::move(all));
        moved = copy;
        CHECK(moved.find(std::as_bytes(std::span(std::string_view(long_token)))) != nullptr);
    };
    CHECK(left_behind(use) == 0);
    CHECK_FALSE(left_on_stack(use));
}

TEST_CASE("a key from a file leaves nothing behind, whether it can be used or not") {
    token_file const file;
    auto const       use = [&] {
        auto const text = tenure::detail::read_named_file("key", file.path(), tenure::detail::others_may::nothing);
        bool const all = has_secret(text.data(), text.size());
        REQUIRE(all);
        throw std::bad_alloc();
    };
    auto const refused = [&] { CHECK_THROWS_AS(use(), std::bad_alloc); };
    CHECK(left_behind(refused) == 0);
    CHECK_FALSE(left_on_stack(refused));
}

TEST_CASE("a token that was shown to a server is in neither's memory when both are gone") {
    token_file const       file;
    tenure::endpoint const anywhere("tcp:127.0.0.1:0");
    CHECK(left_behind([&] {
              tenure::server_options o;
              o.tokens = tenure::tokens::from_file(file.path());
              house<> const          there(anywhere, std::move(o));
              tenure::client_options mine;
              mine.tokens = tenure::tokens::from_file(file.path());
              CHECK(tenure::remote_store::connect(there.where, std::move(mine))->allocate(100, 8).has_value());
          }) == 0);
    CHECK(left_behind([&] {  // another server's token
              tenure::server_options o;
              o.tokens.add("", "another");
              house<> const          there(anywhere, std::move(o));
              tenure::client_options mine;
              mine.tokens.add("", long_token);
              CHECK_THROWS_AS(tenure::remote_store::connect(there.where, std::move(mine)), tenure::error);
          }) == 0);
}

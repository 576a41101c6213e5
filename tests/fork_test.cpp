// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Children of fork(): what the one thread of a child may do while the parent's other threads were at work, and what
// is refused. None of it hangs.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <tenure/asio/supervisor.hpp>
#include <tenure/detail/base/gated_spin_lock.hpp>
#include <tenure/detail/unit/region.hpp>
#include <tenure/store/counted.hpp>
#include <tenure/store/dedup.hpp>
#include <tenure/store/durable_mmap.hpp>
#include <tenure/store/fallback.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/store/limited.hpp>
#include <tenure/store/mmap.hpp>
#include <tenure/store/tiered.hpp>
#include <tenure/tenure.hpp>

#include "stores/plain_store.hpp"
#include "temporary.hpp"

using tenure::batch_id;
using tenure::batch_scope;
using tenure::errc;
using tenure::handle;
using tenure::registry;

namespace {

bool in_child = false;

/// It is killed after 20 s, or 60 where a sanitizer slows it down.
void be_a_child() {
    in_child                   = true;
    constexpr unsigned seconds = TENURE_SANITIZED ? 60 : 20;
    ::signal(SIGALRM, SIG_DFL);
    ::alarm(seconds);
    ::rlimit const most{seconds, seconds};  // in a handler that blocks that signal
    ::setrlimit(RLIMIT_CPU, &most);
}

/// A child's exit code: 0, or where it went wrong.
int fate_of(::pid_t child) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/// Runs `f` in a child, which is killed after a while: 1000 + SIGALRM is a hang.
template <class F>
int in_a_child(F f) {
    std::fflush(nullptr);
    ::pid_t const child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        be_a_child();
        try {
            f();
        } catch (tenure::error const& e) {
            std::fprintf(stderr, "a child: %s\n", e.what());
            ::_exit(200);
        }
        ::_exit(0);
    }
    return fate_of(child);
}

constexpr int hangs = 1000 + SIGALRM;

/// Threads that do a bit of everything to one registry, until it is destroyed.
class busy_threads {
public:
    busy_threads(registry& r, batch_id common) : registry_(r), common_(common) {
        for (int i = 0; i < 3; ++i) threads_.emplace_back([this, i] { work(i); });
        for (auto const& n : rounds_)
            while (n == 0) std::this_thread::yield();
    }
    ~busy_threads() {
        over_ = true;
        for (auto& t : threads_) t.join();
    }
    busy_threads(busy_threads const&)            = delete;
    busy_threads& operator=(busy_threads const&) = delete;

private:
    void work(int number) {
        registry&                        r    = registry_;
        batch_id const                   left = r.new_batch({.residency = tenure::residency::paged_when_left});
        std::vector<handle<std::string>> given;
        for (; !over_; ++rounds_[static_cast<std::size_t>(number)]) {
            batch_scope b{r, {.name = "busy"}};
            for (int i = 0; i < 30; ++i) {
                auto const s = b.make<std::string>(std::size_t{50}, 'y');
                if (i % 10 == 0) given.push_back(r.transfer_ownership(s, common_));
                if (i % 10 == 5) r.free(s);
            }
            if (given.size() > 20) {
                for (auto const& s : given) r.free(s);
                given.clear();
            }
            static_cast<void>(b.make_buffer<int>(100));
            static_cast<void>(b.make<std::array<char, 300'000>>());
            auto const used = b.make<int>(3);
            {
                batch_scope user{r};
                tenure::borrow(used);
                user.keep(user.make<int>(2));
            }
            {
                auto const inside = r.enter(left);
                r.free(tenure::make<int>(1));
            }
            {
                batch_scope later{r, {.reclaim = tenure::reclamation::background}};
                for (int i = 0; i < 30; ++i) static_cast<void>(later.make<std::string>(std::size_t{50}, 'z'));
            }
            if (number == 0) static_cast<void>(r.snapshot());
        }
        r.end_batch(left);
    }

    registry&                       registry_;
    batch_id                        common_;
    std::atomic<bool>               over_{false};
    std::array<std::atomic<int>, 3> rounds_{};
    std::vector<std::thread>        threads_;
};

/// What a child does with what the thread that forked had.
void use_all(registry& r, batch_scope& mine, handle<std::string> old, batch_id common) {
    static_cast<void>(r.snapshot());
    if (*old != std::string(100, 'x')) ::_exit(1);
    static_cast<void>(mine.make<std::string>("made in the child"));
    {
        batch_scope b{r};
        for (int i = 0; i < 1000; ++i) static_cast<void>(b.make<std::string>(std::size_t{100}, 'z'));
        static_cast<void>(b.make_buffer<int>(1000));
        b.keep(b.make<int>(1));
        tenure::borrow(old);
    }
    {
        batch_scope later{r, {.reclaim = tenure::reclamation::background}};
        static_cast<void>(later.make<std::string>(std::size_t{50}, 'z'));
    }
    r.drain();
    try {
        auto const inside = r.enter(common);
        static_cast<void>(tenure::make<std::string>("made in the child"));
    } catch (tenure::error const& e) {
        if (e.code() != errc::forked) throw;  // a thread was just giving it something
    }
    r.end_batch(common);
    static_cast<void>(r.snapshot());
    static_cast<void>(r.trim());
    mine.free(old);
    mine.end();
}

/// Forks in its destructor. The child goes on with what its parent does after that.
struct forks_at_end {
    ::pid_t* child;
    bool     in_a_child_only = false;
    ~forks_at_end() {
        if (!in_child && in_a_child_only) return;
        *child = ::fork();
        if (*child == 0) be_a_child();
    }
};

struct counts_at_end {
    int* ended;
    ~counts_at_end() { ++*ended; }
};

/// Keeps the registry's thread busy until it is told to go on.
struct waits_at_end {
    std::atomic<bool>* reached;
    std::atomic<bool>* go;
    ~waits_at_end() {
        *reached = true;
        while (!*go) ::sched_yield();
    }
};

/// What `f` makes and ends forks once, and sets `child`. The child then runs `after`, and its parent is told what
/// came of that.
template <class F, class G>
int in_a_child_from_a_destructor(::pid_t const& child, F f, G after) {
    std::fflush(nullptr);
    f();
    REQUIRE(child >= 0);
    if (child == 0) {
        after();
        ::_exit(0);
    }
    return fate_of(child);
}

/// Holds up who comes while it is closed.
struct gate {
    std::atomic<bool> closed{false}, reached{false};

    void pass() noexcept {
        if (!closed) return;
        reached = true;
        while (closed) ::sched_yield();
    }
    void await() const {
        while (!reached) std::this_thread::yield();
    }
};

/// With a gate before each call that makes or frees blocks.
class gated_store : public tenure::store_adaptor<tenure::heap_store> {
public:
    gated_store() : store_adaptor(std::make_shared<tenure::heap_store>()) {}

    tenure::result<tenure::block> allocate(std::size_t bytes, std::size_t alignment) {
        at_allocate.pass();
        return store_adaptor::allocate(bytes, alignment);
    }
    tenure::result<void> deallocate(std::span<tenure::block const> many) noexcept {
        at_deallocate.pass();
        return store_adaptor::deallocate(many);
    }

    gate at_allocate, at_deallocate;
};

/// Which knows batches, with a gate before it hears whose a block is now.
class gated_batched_store : public plain_store<{.batched = true}> {
public:
    tenure::result<void> transfer(std::span<tenure::block const> many, std::uint64_t batch) {
        at_transfer.pass();
        return plain_store::transfer(many, batch);
    }

    gate at_transfer;
};

/// Makes, writes, reads and frees a few blocks.
template <class Store>
bool use_store(Store& s) {
    std::array<tenure::block, 3> many;
    for (tenure::block& b : many) {
        auto const               made = s.allocate(300, 8);
        std::array<std::byte, 1> one{std::byte{7}};
        if (!made || !s.write(b = *made, 0, one) || !s.read(b, 0, one) || one[0] != std::byte{7}) return false;
    }
    static_cast<void>(s.usage());
    return s.deallocate(many).has_value();
}

}  // namespace

#if TENURE_ASAN
/// At the exit of a child, what its parent's other threads had is known to nobody, and no leak.
extern "C" int __lsan_is_turned_off() { return in_child; }  // NOLINT(bugprone-reserved-identifier)
#endif

// ThreadSanitizer ends children of processes with threads as soon as they start threads of their own.
TEST_SUITE("a child of a process with threads" * doctest::skip(TENURE_TSAN != 0)) {
    TEST_CASE("snapshots, makes, ends and exits, whatever the others were at") {
        registry&      r = registry::global();
        batch_scope    mine{r, {.name = "mine"}};
        auto const     old    = mine.make<std::string>(std::size_t{100}, 'x');
        batch_id const common = r.new_batch({.name = "common"});
        {
            busy_threads const others(r, common);
            constexpr int      forks = TENURE_SANITIZED ? 40 : 250;
            for (int i = 0; i < forks; ++i) {
                int const how = in_a_child([&] {
                    use_all(r, mine, old, common);
                    if (i % 5) return;
                    if (!std::freopen("/dev/null", "w", stderr)) ::_exit(2);  // which has a leak report
                    std::exit(0);                                             // and the registry closes
                });
                CAPTURE(i);
                REQUIRE(how != hangs);
                REQUIRE(how == 0);
            }
        }
        r.end_batch(common);
        CHECK(*old == std::string(100, 'x'));
    }

    TEST_CASE("may have threads and registries of its own") {
        registry                    r;
        batch_id const              common = r.new_batch();
        std::optional<busy_threads> others(std::in_place, r, common);
        for (int i = 0; i < (TENURE_SANITIZED ? 6 : 20); ++i) {
            int const how = in_a_child([&] {
                std::thread([&] {
                    batch_scope b{r};
                    if (*b.make<std::string>("in a thread") != "in a thread") ::_exit(1);
                }).join();
                registry       own;
                batch_id const c = own.new_batch();
                { busy_threads const more(own, c); }
                own.end_batch(c);
            });
            CHECK(how == 0);
        }
        others.reset();
        r.end_batch(common);
    }

    TEST_CASE("exits at once, whatever waited for the global registry's thread") {
        registry&         r = registry::global();
        std::atomic<bool> reached{false}, go{false};
        int               destroyed = 0;
        {
            batch_scope b{r, {.reclaim = tenure::reclamation::background}};
            static_cast<void>(b.make<waits_at_end>(&reached, &go));
        }
        while (!reached) std::this_thread::yield();
        {
            batch_scope b{r, {.reclaim = tenure::reclamation::background}};
            static_cast<void>(b.make<counts_at_end>(&destroyed));
        }
        int const how = in_a_child([] {
            if (!std::freopen("/dev/null", "w", stderr)) ::_exit(2);
            std::exit(0);
        });
        CHECK(how == 0);
        go = true;
        r.drain();
        CHECK(destroyed == 1);
    }

    TEST_CASE("reads what another thread was in, and is told why it can do no more") {
        registry            r;
        batch_id const      entered = r.new_batch({.name = "entered"}), idle = r.new_batch();
        handle<std::string> in_guard, in_entered, in_idle;
        batch_id            guarded;
        std::atomic<int>    stage{0};
        {
            auto const inside = r.enter(idle);
            in_idle           = tenure::make<std::string>("idle");
        }
        std::thread other([&] {
            batch_scope b{r, {.name = "guarded"}};
            guarded           = b.id();
            in_guard          = b.make<std::string>("guarded");
            auto const inside = r.enter(entered);
            in_entered        = tenure::make<std::string>("entered");
            stage             = 1;
            while (stage == 1) std::this_thread::yield();
        });
        while (stage == 0) std::this_thread::yield();
        int const how = in_a_child([&] {
            auto const says = [](errc why, auto f) {
                try {
                    f();
                } catch (tenure::error const& e) {
                    return e.code() == why;
                }
                return false;
            };
            if (*in_guard != "guarded" || *in_entered != "entered") ::_exit(1);
            if (!says(errc::forked, [&] { static_cast<void>(r.enter(entered)); })) ::_exit(2);
            if (!says(errc::forked, [&] { r.free(in_entered); })) ::_exit(3);
            if (!says(errc::forked, [&] { r.transfer_ownership(in_guard, idle); })) ::_exit(4);
            if (!says(errc::forked, [&] { r.transfer_ownership(in_idle, entered); })) ::_exit(5);
            if (!says(errc::forked, [&] { static_cast<void>(r.new_batch({}, guarded)); })) ::_exit(6);
            r.end_batch(entered);  // it is over
            if (r.status(entered) != tenure::batch_status::ending) ::_exit(7);
            r.end_batch(idle);
            if (in_idle.alive() || r.status(idle) != tenure::batch_status::done) ::_exit(8);
        });
        CHECK(how == 0);
        stage = 2;
        other.join();
        CHECK(*in_idle == "idle");
        r.end_batch(entered);
        r.end_batch(idle);
    }

    TEST_CASE("closes a scope of its own in which another thread was, and goes on with the one above") {
        registry         r;
        batch_scope      above(r);
        auto             mine = std::make_unique<batch_scope>(r);
        std::atomic<int> stage{0};
        std::thread      other([&, id = mine->id()] {
            auto const in = r.enter(id);
            stage         = 1;
            while (stage == 1) std::this_thread::yield();
        });
        while (stage == 0) std::this_thread::yield();
        int const how = in_a_child([&] {
            if (mine->try_make<int>(1).error() != errc::forked) ::_exit(1);
            mine.reset();
            if (tenure::make<int>(1).owner() != above.id()) ::_exit(2);
            {
                batch_scope below;
                if (below.make<int>(2).owner() != below.id()) ::_exit(3);
            }
            above.end();
            batch_scope(r).make<int>(3);
        });
        CHECK(how == 0);
        stage = 2;
        other.join();
    }

    TEST_CASE("uses memory that went back while another thread was just at it, by a stale handle") {
        registry         r;
        std::atomic<int> stage{0};
        auto const       large = [&r](auto f) {
            batch_scope       b(r);
            auto const        h  = b.make<std::array<char, 20'000'000>>();
            void const* const at = h.get();
            f(b, h);
            return at;
        };
        std::thread       other;
        void const* const there = large([&](batch_scope&, auto h) {
            tenure::detail::unit* const u = tenure::detail::unit_at(reinterpret_cast<std::uintptr_t>(h.get()));
            other                         = std::thread([&stage, u] {
                while (stage == 0) std::this_thread::yield();
                u->lock.lock();
                stage = 2;
                while (stage == 2) std::this_thread::yield();
                u->lock.unlock();
            });
        });
        stage                   = 1;
        while (stage == 1) std::this_thread::yield();
        int const how = in_a_child([&] {
            void const* const again = large([](batch_scope& b, auto h) { b.free(h); });
            if (again != there) ::_exit(1);
        });
        CHECK(how == 0);
        stage = 3;
        other.join();
    }

    TEST_CASE("closes a registry in which another thread was, and knows no handle of it any more") {
        auto                r = std::make_unique<registry>();
        handle<std::string> theirs;
        handle<int>         of_ours[2];
        std::atomic<int>    stage{0};
        std::thread         other([&] {
            batch_scope b(*r);
            theirs     = b.make<std::string>("theirs");
            of_ours[0] = b.make<int>(1);
            stage      = 1;
            while (stage == 1) std::this_thread::yield();
        });
        while (stage == 0) std::this_thread::yield();
        int const how = in_a_child([&] {
            r.reset();
            registry    next;  // which may have the addresses
            batch_scope b(next);
            of_ours[1] = b.make<int>(2);
            if (theirs.alive() || of_ours[0].alive()) ::_exit(1);
            try {
                static_cast<void>(theirs.owner());
                ::_exit(2);
            } catch (tenure::error const& e) {
                if (e.code() != errc::stale_handle) ::_exit(3);
            }
            if (*of_ours[1] != 2) ::_exit(4);
        });
        CHECK(how == 0);
        stage = 2;
        other.join();
    }

    TEST_CASE("ends what is above batches of other threads: at once, unless something between them goes on") {
        registry       r;
        int            destroyed = 0;
        batch_scope    above{r, {.limits = {.soft = 1'000'000}}};
        batch_id const id    = above.id();
        batch_id const inner = r.new_batch({}, id), between = r.new_batch({}, inner), common = r.new_batch();
        static_cast<void>(above.make<counts_at_end>(&destroyed));
        std::atomic<int> stage{0};
        handle<int>      left;
        std::thread      other([&] {
            batch_scope job(tenure::below{above});
            batch_scope nested;
            left              = nested.make<int>(1);
            auto const inside = r.enter(common);
            stage             = 1;
            while (stage == 1) std::this_thread::yield();
        });
        while (stage == 0) std::this_thread::yield();
        int const how = in_a_child([&] {
            above.end();
            if (destroyed != 1 || r.status(id) != tenure::batch_status::done) ::_exit(1);
            for (int i = 0; i < 100; ++i) {
                batch_scope b{r, {.limits = {.soft = 1'000'000}}};
                static_cast<void>(b.make<std::string>(std::size_t{50}, 'x'));
            }
            if (*left != 1) ::_exit(2);
            static_cast<void>(r.snapshot());
        });
        CHECK(how == 0);
        std::atomic<int> entered{0};
        std::thread      within([&] {
            auto const inside = r.enter(inner);
            entered           = 1;
            while (entered == 1) std::this_thread::yield();
        });
        while (entered == 0) std::this_thread::yield();
        int const kept = in_a_child([&] {
            {
                auto const inside = r.enter(between);
                if (*tenure::make<int>(2) != 2) ::_exit(1);
            }
            above.end();  // and so what is below it, but not `inner`, which that thread is in
            if (destroyed != 0 || r.status(id) != tenure::batch_status::ending) ::_exit(2);
        });
        CHECK(kept == 0);
        entered = stage = 2;
        within.join();
        other.join();
        above.end();
        CHECK(destroyed == 1);
        r.end_batch(common);
    }

    TEST_CASE("cancels and ends what is below scopes of other threads that it has not") {
        registry         r;
        batch_scope      above(r);
        batch_id         ended{}, detached{};
        std::atomic<int> stage{0};
        std::thread      other([&] {
            batch_scope job(tenure::below{above});
            batch_scope nested, more;
            ended = r.new_batch({}, nested.id());
            {
                batch_scope left;
                detached = left.detach();
            }
            stage = 1;
            while (stage == 1) std::this_thread::yield();
        });
        while (stage == 0) std::this_thread::yield();
        for (bool const cancels : {false, true}) {
            int const how = in_a_child([&] {
                for (batch_id const id : {ended, detached})
                    if (r.status(id) != tenure::batch_status::active) ::_exit(1);
                cancels ? r.cancel(above.id()) : r.end_batch(above.id());
                if (r.status(ended) == tenure::batch_status::active) ::_exit(2);
                if ((r.status(detached) == tenure::batch_status::active) == cancels) ::_exit(3);
                if (r.status(above.id()) == tenure::batch_status::active) ::_exit(4);
            });
            CHECK(how == 0);
        }
        stage = 2;
        other.join();
        r.end_batch(detached);
    }

    TEST_CASE("runs what waited for the registry's thread, which it has not") {
        struct slow {
            std::atomic<int>*  at;
            std::atomic<bool>* go;
            ~slow() {
                ++*at;
                while (!*go) ::sched_yield();
            }
        };
        registry          r;
        std::atomic<int>  at{0}, ended{0};
        std::atomic<bool> go{false};
        {
            batch_scope b{r, {.reclaim = tenure::reclamation::background}};
            static_cast<void>(b.make<slow>(&at, &go));
        }
        while (at == 0) std::this_thread::yield();
        {
            batch_scope b{r, {.reclaim = tenure::reclamation::background}};
            b.defer([&] { ++ended; });
        }
        int const how = in_a_child([&] {
            r.drain();  // but for the one that the thread was at
            if (ended != 1 || at != 1) ::_exit(1);
            batch_scope b{r, {.reclaim = tenure::reclamation::background}};
            b.defer([&] { ++ended; });
            b.end();
            r.drain();
            if (ended != 2) ::_exit(2);
        });
        CHECK(how == 0);
        go = true;
        r.drain();
        CHECK(ended == 1);
    }

    TEST_CASE("runs a derivation anew that another thread was at, and is not run twice where it forks itself") {
        registry          r;
        batch_scope       b{r};
        std::atomic<bool> reached{false}, go{false};
        auto const        seven       = tenure::make_derived<int>(10, [&](std::span<int> out) {
            reached = true;
            while (!go) ::sched_yield();
            std::ranges::fill(out, 7);
        });
        auto const        reads_seven = [&] {
            int one[1]{};
            seven.read(0, one);
            return one[0] == 7;
        };
        std::thread other([&] { CHECK(reads_seven()); });
        while (!reached) std::this_thread::yield();
        int const how = in_a_child([&] {
            go = true;
            if (!reads_seven()) ::_exit(1);
            tenure::evict(seven);
            if (!reads_seven()) ::_exit(2);
        });
        CHECK(how == 0);
        go = true;
        other.join();

        ::pid_t    child  = -1;
        auto const forked = tenure::make_derived<int>(10, [&](std::span<int> out) {
            child = ::fork();
            if (child == 0) be_a_child();
            std::ranges::fill(out, 8);
        });
        int        one[1]{};
        CHECK(in_a_child_from_a_destructor(
                  child, [&] { forked.read(0, one); }, [&] { ::_exit(one[0] == 8 ? 0 : 1); }) == 0);
        CHECK(one[0] == 8);
    }

    TEST_CASE("writes under a checkpoint where another thread was just writing, and goes back to it") {
        using bytes = std::array<char, std::size_t{4} << 20>;
        registry    r;
        batch_scope b{r};
        bytes&      all = *b.make<bytes>();
        all.fill('a');
        constexpr std::size_t page = 4096;
        for (int i = 0; i < 20; ++i) {
            b.checkpoint();
            std::atomic<bool> started{false};
            std::thread       other([&] {
                started = true;
                for (std::size_t k = 0; k < all.size(); k += page) all[k] = 'b';
            });
            while (!started) std::this_thread::yield();
            int const how = in_a_child([&] {
                for (std::size_t k = 0; k < all.size(); k += page) all[k] = 'c';
                b.rollback();
                if (std::ranges::count(all, 'a') != std::ranges::ssize(all)) ::_exit(1);
            });
            other.join();
            b.rollback();
            CAPTURE(i);
            REQUIRE(how == 0);
            REQUIRE(std::ranges::count(all, 'a') == std::ranges::ssize(all));
        }
    }

    TEST_CASE(
        "evicts and gives on a buffer that another thread was just giving it, in a store that knows batches") {
        registry       r;
        auto const     store = std::make_shared<gated_batched_store>();
        batch_id const from  = r.new_batch();
        batch_scope    mine{r};
        auto const     make = [&] {
            auto const inside = r.enter(from);
            return tenure::make_buffer<int>(10, store);
        };
        auto const one = make(), two = make();
        store->at_transfer.closed = true;
        std::thread first([&] { r.transfer_ownership(one, mine.id()); });
        store->at_transfer.await();
        store->at_transfer.reached = false;
        std::thread second([&] { r.transfer_ownership(two, mine.id()); });
        store->at_transfer.await();
        int const how = in_a_child([&] {
            store->at_transfer.closed = false;
            tenure::evict(one);
            batch_id const other = r.new_batch();
            r.transfer_ownership(two, other);
            r.end_batch(other);
            if (r.status(other) != tenure::batch_status::done || two.alive()) ::_exit(1);
        });
        CHECK(how == 0);
        store->at_transfer.closed = false;
        first.join();
        second.join();
        mine.end();
        CHECK(!one.alive());
        CHECK(store->usage().blocks == 0);
        r.end_batch(from);
    }

    TEST_CASE("has no lock of a batch, and its parent's threads get none while it is forked") {
        registry                        r;  // which installs the handlers
        tenure::detail::gated_spin_lock lock;
        std::atomic<bool>               got{false};
        tenure::detail::before_fork();
        bool const early = lock.try_lock();
        if (early) lock.unlock();
        CHECK_FALSE(early);
        std::thread other([&] {
            lock.lock();
            got = true;
            lock.unlock();
        });
        for (int i = 0; i < 1000; ++i) {
            ::sched_yield();
            if (got) FAIL_CHECK(i);
        }
        tenure::detail::after_fork();
        other.join();
        CHECK(got);
        CHECK(lock.try_lock());
        lock.forget_others();  // as if a thread that the child has not was just getting it
        CHECK(lock.try_lock());
        lock.unlock();

        auto const id = r.new_batch();
        auto&      b  = *tenure::detail::record_of(id.value);
        CHECK(in_a_child([&] {
                  if (!b.lock.try_lock()) ::_exit(1);
                  b.lock.unlock();
                  r.end_batch(id);
              }) == 0);
        r.end_batch(id);
    }

    TEST_CASE("is there at once, below thousands of scopes of another thread and among many registries") {
        constexpr int n = TENURE_SANITIZED ? 2'000 : 30'000;
        // In a process of its own, because records of batches stay for as long as the process.
        int const how = in_a_child([&] {
            std::list<registry>   many(TENURE_SANITIZED ? 20 : 200);
            registry&             r = many.front();
            std::vector<batch_id> below;
            gate                  stay;
            stay.closed = true;
            std::thread other([&] {
                std::vector<std::unique_ptr<batch_scope>> scopes;
                for (int i = 0; i < n; ++i) scopes.push_back(std::make_unique<batch_scope>(r));
                for (int i = 0; i < n; ++i) below.push_back(r.new_batch({}, scopes.back()->id()));
                stay.pass();
            });
            stay.await();
            ::_exit(in_a_child([&] {
                        for (batch_id const id : below) {
                            auto const in = r.enter(id);
                            static_cast<void>(tenure::make<int>(1));
                        }
                        for (batch_id const id : below) r.end_batch(id);
                        if (r.status(below.back()) != tenure::batch_status::done) ::_exit(1);
                    }) == 0
                        ? 0
                        : 2);
        });
        CHECK(how == 0);
    }

    TEST_CASE("goes on with its scope, and with what is above it, while another thread tries to page them out") {
        registry       r;
        batch_scope    up{r, {.name = "above"}}, mine{r, {.name = "mine"}};
        batch_id const above = up.detach();
        auto const     old   = mine.make<int>(7);
        std::array     tried{std::atomic<int>{0}, std::atomic<int>{0}};
        std::jthread   mover([&](std::stop_token const& over) {
            while (!over.stop_requested())
                for (std::size_t i = 0; i < 2; ++i) {
                    errc why{};
                    try {
                        r.page_out(i == 0 ? mine.id() : above);
                    } catch (tenure::error const& e) {
                        if (e.code() == errc::batch_in_use) why = errc::batch_in_use;
                    }
                    tried[i] = why == errc::batch_in_use ? tried[i] + 1 : -1'000'000;
                }
        });
        while (tried[0] == 0 || tried[1] == 0) std::this_thread::yield();
        for (int i = 0; i < (TENURE_SANITIZED ? 40 : 400); ++i) {
            CHECK(in_a_child([&] {
                      if (*old != 7) ::_exit(1);
                      if (*mine.make<int>(8) != 8) ::_exit(2);
                      {
                          auto const in = r.enter(above);
                          if (*tenure::make<int>(9) != 9) ::_exit(3);
                      }
                      mine.keep(old);
                      mine.end();
                      if (*old != 7) ::_exit(4);
                      r.end_batch(above);
                  }) == 0);
        }
        mover.request_stop();
        mover.join();
        CHECK(tried[0] > 0);
        CHECK(tried[1] > 0);
        mine.end();
        r.end_batch(above);
    }

    TEST_CASE("ends a supervisor whose thread was just at a batch, and has one of its own") {
        registry                          r;
        std::optional<tenure::supervisor> watch(std::in_place, r);
        gate                              at_stop;
        at_stop.closed = true;
        batch_scope              b{r, {.timeout = std::chrono::milliseconds(1)}};
        std::stop_callback const stops(b.stop_token(), [&] { at_stop.pass(); });
        at_stop.await();
        int const how = in_a_child([&] {
            watch.reset();
            std::atomic<bool>        stopped{false};
            registry                 fresh;
            tenure::supervisor const own(fresh);
            batch_scope              late{fresh, {.timeout = std::chrono::milliseconds(1)}};
            std::stop_callback const tells(late.stop_token(), [&] { stopped = true; });
            while (!stopped) std::this_thread::yield();
        });
        CHECK(how == 0);
        at_stop.closed = false;
        watch.reset();
    }

    TEST_CASE("uses adaptors of stores in memory, whatever the others were at there") {
        using tenure::heap_store;
        auto const                                   heap = std::make_shared<heap_store>();
        tenure::limited_store<heap_store>            limited(heap, {1'000'000, 1'000});
        tenure::dedup_store<heap_store>              dedup(heap);
        tenure::tiered_store<heap_store, heap_store> tiered(heap, heap, {.fast_bytes = 2'000});

        auto const few = std::make_shared<heap_store>(tenure::heap_options{.capacity = 500});
        tenure::fallback_store<heap_store, heap_store> fallback(few, heap);
        tenure::counted_store<heap_store>              counted(heap);
        std::atomic<bool>                              over{false};
        auto const                                     use_them = [&] {
            while (!over) {
                CHECK(use_store(limited));
                CHECK(use_store(dedup));
                CHECK(use_store(tiered));
                CHECK(use_store(fallback));
                counted.push();
                CHECK(use_store(counted));
                counted.pop();
            }
        };
        std::thread first(use_them), second(use_them);
        for (int i = 0; i < (TENURE_SANITIZED ? 40 : 250); ++i) {
            int const how = in_a_child([&] {
                for (int k = 0; k < 3; ++k) {
                    if (!use_store(limited) || !use_store(dedup) || !use_store(tiered)) ::_exit(1);
                    counted.push();
                    if (!use_store(fallback) || !use_store(counted)) ::_exit(1);
                    counted.pop();
                }
            });
            CAPTURE(i);
            CHECK(how == 0);
        }
        over = true;
        first.join();
        second.join();
    }

    TEST_CASE("is told of a block that another thread was moving from tier to tier, and goes on with others") {
        auto const                                     fast = std::make_shared<gated_store>();
        auto const                                     slow = std::make_shared<gated_store>();
        tenure::tiered_store<gated_store, gated_store> store(fast, slow, {.fast_bytes = 1'000});
        tenure::block const                            moved = store.allocate(600, 8).value();
        std::array<std::byte, 1>                       one{std::byte{7}};
        REQUIRE(store.write(moved, 0, one).has_value());
        slow->at_allocate.closed = true;
        std::thread other([&] { CHECK(store.allocate(600, 8).has_value()); });
        slow->at_allocate.await();
        int const how = in_a_child([&] {
            slow->at_allocate.closed = false;
            auto const read          = store.read(moved, 0, one);
            if (read || read.error() != errc::forked) ::_exit(1);
            if (!use_store(store) || !store.deallocate({&moved, 1})) ::_exit(2);
        });
        CHECK(how == 0);
        slow->at_allocate.closed = false;
        other.join();
        one = {};
        CHECK(store.read(moved, 0, one).has_value());
        CHECK(one[0] == std::byte{7});
    }

    TEST_CASE("destroys a fallback_store in which another thread was allocating, and frees what is live") {
        using counted     = tenure::counted_store<gated_store>;
        auto const gated  = std::make_shared<gated_store>();
        auto const first  = std::make_shared<counted>(gated);
        auto const second = std::make_shared<tenure::heap_store>();
        auto       store  = std::make_unique<tenure::fallback_store<counted, tenure::heap_store>>(first, second);
        CHECK(store->allocate(100, 8).has_value());
        gated->at_allocate.closed = true;
        std::thread other([&] { CHECK(store->allocate(100, 8).has_value()); });
        gated->at_allocate.await();
        int const how = in_a_child([&] {
            gated->at_allocate.closed = false;
            if (!use_store(*store)) ::_exit(1);
            auto const before = first->figures().deallocate;
            store.reset();
            auto const after = first->figures().deallocate;
            if (after.calls != before.calls + 1 || after.errors != before.errors) ::_exit(2);
            if (first->usage().blocks != 0) ::_exit(3);
        });
        CHECK(how == 0);
        gated->at_allocate.closed = false;
        other.join();
        CHECK(first->usage().blocks == 2);
    }

    TEST_CASE("frees blocks where another thread was just gathering its own, on a stack that is used anew") {
        auto const                                            fast = std::make_shared<gated_store>();
        auto const                                            slow = std::make_shared<tenure::heap_store>();
        tenure::tiered_store<gated_store, tenure::heap_store> store(fast, slow);
        tenure::block const                                   b = store.allocate(100, 8).value();
        fast->at_deallocate.closed                              = true;
        std::thread other([&] { CHECK(store.deallocate({&b, 1}).has_value()); });
        fast->at_deallocate.await();
        int const how = in_a_child([&] {
            fast->at_deallocate.closed = false;
            std::thread([&] {
                std::array<char volatile, 30'000> stack;
                for (auto& c : stack) c = '!';
                if (!use_store(store)) ::_exit(1);
            }).join();
            if (!use_store(store)) ::_exit(2);
        });
        CHECK(how == 0);
        fast->at_deallocate.closed = false;
        other.join();
    }
}

// Which has no threads of its own, but those of the registries.
TEST_SUITE("a child that a destructor forks" * doctest::skip(TENURE_TSAN != 0)) {
    /// What is over in the parent is so in the child, and freed there, too.
    void ends_well(registry & r, batch_id over, handle<int> gone, int const& destroyed, int all) {
        if (destroyed != all) ::_exit(1);
        if (gone.alive() || r.status(over) != tenure::batch_status::done) ::_exit(2);
        batch_scope b{r};
        for (int i = 0; i < 1000; ++i) static_cast<void>(b.make<std::string>(std::size_t{100}, 'z'));
        b.end();
        if (r.snapshot().batches.size() != 1) ::_exit(3);
    }

    TEST_CASE("ends what its parent was just ending: a scope") {
        registry    r;
        ::pid_t     child     = -1;
        int         destroyed = 0;
        batch_id    id;
        handle<int> gone;
        int const   how = in_a_child_from_a_destructor(
            child,
            [&] {
                batch_scope b{r};
                id   = b.id();
                gone = b.make<int>(1);
                static_cast<void>(b.make<counts_at_end>(&destroyed));
                static_cast<void>(b.make<forks_at_end>(&child));
                static_cast<void>(b.make<counts_at_end>(&destroyed));
            },
            [&] { ends_well(r, id, gone, destroyed, 2); });
        CHECK(how == 0);
        ends_well(r, id, gone, destroyed, 2);
    }

    TEST_CASE("ends what its parent was just ending: a batch without a guard, and one below it") {
        registry    r;
        ::pid_t     child     = -1;
        int         destroyed = 0;
        batch_id    id, below;
        handle<int> gone;
        int const   how = in_a_child_from_a_destructor(
            child,
            [&] {
                id    = r.new_batch();
                below = r.new_batch({}, id);
                {
                    auto const inside = r.enter(id);
                    static_cast<void>(tenure::make<counts_at_end>(&destroyed));
                }
                {
                    auto const inside = r.enter(below);
                    gone              = tenure::make<int>(1);
                    static_cast<void>(tenure::make<counts_at_end>(&destroyed));
                    static_cast<void>(tenure::make<forks_at_end>(&child));
                    static_cast<void>(tenure::make<counts_at_end>(&destroyed));
                }
                r.end_batch(id);
            },
            [&] {
                if (r.status(below) != tenure::batch_status::done) ::_exit(4);
                ends_well(r, id, gone, destroyed, 3);
            });
        CHECK(how == 0);
        ends_well(r, id, gone, destroyed, 3);
    }

    TEST_CASE("goes back to the checkpoint that its parent was just going back to") {
        registry    r;
        ::pid_t     child = -1;
        batch_scope b{r};
        auto const  old       = b.make<int>(1);
        int         destroyed = 0;
        int const   how       = in_a_child_from_a_destructor(
            child,
            [&] {
                b.checkpoint();
                *old = 2;
                static_cast<void>(b.make<counts_at_end>(&destroyed));
                static_cast<void>(b.make<forks_at_end>(&child));
                b.rollback();
            },
            [&] {
                if (*old != 1 || destroyed != 1) ::_exit(1);
                static_cast<void>(b.make<int>(3));
                b.end();
                if (old.alive()) ::_exit(2);
            });
        CHECK(how == 0);
        CHECK(*old == 1);
    }

    TEST_CASE("is the registry's thread where that one forks, and exits there") {
        struct makes_a_child {
            registry* r;
            int*      fate;
            ~makes_a_child() {
                *fate = in_a_child([this] {
                    batch_scope b{*r};
                    b.keep(b.make<std::string>(std::size_t{100}, 'z'));
                    r->drain();
                });
            }
        };
        registry r;
        int      how = -1;
        {
            batch_scope b{r, {.reclaim = tenure::reclamation::background}};
            static_cast<void>(b.make<makes_a_child>(&r, &how));
        }
        r.drain();
        CHECK(how == 0);
    }

    TEST_CASE("runs what the registry's thread had left, and one of that forks once more") {
        registry          r;
        ::pid_t           child     = -1;
        int               destroyed = 0;
        std::atomic<bool> reached{false}, go{false};
        {
            batch_scope b{r, {.reclaim = tenure::reclamation::background}};
            static_cast<void>(b.make<waits_at_end>(&reached, &go));
        }
        while (!reached) ::sched_yield();
        {
            batch_scope b{r, {.reclaim = tenure::reclamation::background}};
            static_cast<void>(b.make<counts_at_end>(&destroyed));
            static_cast<void>(b.make<forks_at_end>(&child, true));
        }
        int const how = in_a_child([&] {
            r.drain();
            int const again = child > 0 ? fate_of(child) : 0;
            if (child < 0 || again != 0) ::_exit(1);
            r.drain();
            if (destroyed != 1) ::_exit(2);
        });
        CHECK(how == 0);
        go = true;
        r.drain();
        CHECK(destroyed == 1);
    }
}

TEST_SUITE("stores of a parent") {
    TEST_CASE("a child is told that files are not its own, and leaves them as they are") {
        temporary_directory      here, durable;
        auto const               scratch = std::make_shared<tenure::mmap_store>(here.path());
        auto                     named   = tenure::mmap_store::open(durable.path());
        tenure::block const      b = scratch->allocate(100, 8).value(), d = named->allocate(100, 8).value();
        std::array<std::byte, 1> one{std::byte{7}};
        REQUIRE(scratch->write(b, 0, one).has_value());
        REQUIRE(named->write(d, 0, one).has_value());
        int const how = in_a_child([&] {
            auto const refuses = [&](auto& store, tenure::block x) {
                std::array<std::byte, 1> byte{};
                auto const               says = [](auto const& r) { return !r && r.error() == errc::forked; };
                return says(store.allocate(100, 8)) && says(store.deallocate({&x, 1})) &&
                       says(store.read(x, 0, byte)) && says(store.write(x, 0, byte)) && says(store.address(x)) &&
                       says(store.copy(x, 0, x, 8, 1));
            };
            if (!refuses(*scratch, b)) ::_exit(1);
            if (!refuses(*named, d) || named->sync({&d, 1}).has_value() || named->close().has_value()) ::_exit(2);
            named.reset();
            tenure::mmap_store own(here.path());
            if (!own.allocate(100, 8)) ::_exit(3);
        });
        CHECK(how == 0);
        one = {};
        REQUIRE(scratch->read(b, 0, one).has_value());
        CHECK(one[0] == std::byte{7});
        REQUIRE(named->read(d, 0, one).has_value());
        CHECK(one[0] == std::byte{7});
        CHECK(named->sync({&d, 1}).has_value());
        CHECK(named->close().has_value());
    }

    TEST_CASE("a child ends a batch that is paged out: its parent still has the pages") {
        constexpr std::size_t n = std::size_t{80} << 20;  // more than the page file keeps warm
        registry              r;
        batch_id const        id = r.new_batch();
        auto const            h  = [&] {
            auto const in = r.enter(id);
            return tenure::make<unsigned char[]>(n);
        }();
        std::ranges::fill(h.span(), static_cast<unsigned char>(0x5a));
        r.page_out(id);
        REQUIRE(r.usage(id).paged_out >= n);
        CHECK(in_a_child([&] { r.end_batch(id); }) == 0);
        {
            auto const in = r.enter(id);
            CHECK(std::ranges::all_of(h.span(), [](unsigned char c) { return c == 0x5a; }));
        }
        r.end_batch(id);
    }

    TEST_CASE("a child ends a batch that has buffers in one: what is the parent's stays") {
        temporary_directory here;
        registry            r;
        auto const          store = std::make_shared<tenure::mmap_store>(here.path());
        batch_scope         b{r};
        auto const          data    = b.make_buffer<int>(100, store);
        int const           seven[] = {7};
        data.write(0, seven);
        int const how = in_a_child([&] {
            b.end();
            static_cast<void>(r.snapshot());
        });
        CHECK(how == 0);
        int one[1]{};
        data.read(0, one);
        CHECK(one[0] == 7);
    }
}

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Jobs that go on from their last save, however they were interrupted.

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <doctest/doctest.h>

#include <tenure/save.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "temporary.hpp"
#include "throws.hpp"

using tenure::batch_scope;
using tenure::buffer;
using tenure::errc;

namespace {

template <class T>
std::vector<T> contents(buffer<T> const& b) {
    std::vector<T> out(b.size());
    b.read(0, out);
    return out;
}

/// What jobs say of themselves where it outlives them: also to the process that started theirs.
struct job_account {
    std::atomic<std::uint64_t> resumed{0};  ///< jobs that went on from a save
    std::atomic<std::uint64_t> steps{0};    ///< of all of them
    std::atomic<std::uint64_t> saves{0};
    std::atomic<std::uint64_t> saved{0};  ///< steps in the last save that returned
};

class shared_account {
public:
    shared_account() {
        void* const memory =
            ::mmap(nullptr, sizeof(job_account), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) throw std::system_error{errno, std::generic_category(), "mmap"};
        it_ = new (memory) job_account;
    }
    ~shared_account() { ::munmap(it_, sizeof(job_account)); }
    shared_account(shared_account const&)            = delete;
    shared_account& operator=(shared_account const&) = delete;

    job_account& operator*() const noexcept { return *it_; }
    job_account* operator->() const noexcept { return it_; }

private:
    job_account* it_;
};

constexpr std::uint64_t steps_a_save = 3;

/// A job of so many steps, each of which changes all that it has; saved after each third.
std::vector<std::uint64_t> work(std::filesystem::path const& directory, std::uint64_t steps, job_account& account) {
    batch_scope job;
    auto const  saved = tenure::restore(directory);
    auto const  step  = saved.empty() ? job.make_buffer<std::uint64_t>(1) : saved.get<std::uint64_t>("step");
    auto const  state = saved.empty() ? job.make_buffer<std::uint64_t>(50'000) : saved.get<std::uint64_t>("state");
    if (saved.empty()) {
        step.write(0, std::vector<std::uint64_t>{0});
        state.write(0, std::vector<std::uint64_t>(state.size(), 1));
        tenure::give_name(step, "step");
        tenure::give_name(state, "state");
    }
    auto          now = contents(state);
    std::uint64_t i   = contents(step)[0];
    account.resumed += i > 0;
    while (i < steps) {
        for (std::size_t k = 0; k < now.size(); ++k)
            now[k] = now[k] * 6364136223846793005u + now[(k * 7 + i) % now.size()] + i;
        ++i;
        state.write(0, now);
        step.write(0, {{i}});
        ++account.steps;
        if (i % steps_a_save != 0) continue;
        tenure::save(job, directory);
        account.saved = i;
        ++account.saves;
    }
    return now;
}

/// Whether the child has; waitpid() will find it still.
bool has_ended(::pid_t child) {
    ::siginfo_t info{};
    if (::waitid(P_PID, static_cast<::id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0)
        throw std::system_error{errno, std::generic_category(), "waitid"};
    return info.si_pid == child;
}

}  // namespace

TEST_SUITE("save") {
    TEST_CASE_FIXTURE(accounting, "and restore: buffers that have names, from any store, as they were") {
        temporary_directory here;
        auto const          path = here.path() / "saves";
        {
            batch_scope b;
            auto const  in_heap  = b.make_buffer<int>(3);
            auto const  in_file  = b.make_buffer<double>(2, std::make_shared<tenure::mmap_store>(here.path()));
            auto const  nameless = b.make_buffer<int>(1);
            in_heap.write(0, {{1, 2, 3}});
            in_file.write(0, {{0.5, 1.5}});
            nameless.write(0, {{7}});
            tenure::give_name(in_heap, "in heap");
            tenure::give_name(in_file, "in a file");
            tenure::save(b, path);
            in_heap.write(0, {{4}});
        }
        batch_scope b;
        auto const  saved = tenure::restore(path);
        CHECK(contents(saved.get<int>("in heap")) == std::vector{1, 2, 3});
        CHECK(contents(saved.get<double>("in a file")) == std::vector{0.5, 1.5});
        CHECK(saved.get<int>("in heap").owner() == b.id());
        CHECK(b.usage().buffers == 2);
        check_throws(errc::no_such_name, {"nameless"}, [&] { saved.get<int>("nameless"); });
        check_throws(errc::out_of_range, {"in heap"}, [&] { saved.get<std::uint64_t>("in heap"); });

        saved.get<int>("in heap").write(0, {{9}});
        tenure::save(b, path);  // under their names still
        CHECK(contents(tenure::restore(path).get<int>("in heap")) == std::vector{9, 2, 3});
    }

    TEST_CASE_FIXTURE(accounting, "what is not the batch's any more is not in its next save") {
        temporary_directory here;
        batch_scope         outer;
        batch_scope         b;
        auto const freed = b.make_buffer<int>(1), kept = b.make_buffer<int>(1), stays = b.make_buffer<int>(1),
                   renamed = b.make_buffer<int>(2);
        tenure::give_name(freed, "freed");
        tenure::give_name(kept, "kept");
        tenure::give_name(stays, "stays");
        tenure::save(b, here.path());
        {
            batch_scope other;
            CHECK(tenure::restore(here.path()).contains("freed"));
        }
        b.free(freed);
        b.keep(kept);
        tenure::give_name(renamed, "stays");
        tenure::save(b.id(), here.path());
        batch_scope other;
        auto const  saved = tenure::restore(here.path());
        CHECK_FALSE(saved.contains("freed"));
        CHECK_FALSE(saved.contains("kept"));
        CHECK(saved.get<int>("stays").size() == 2);
    }

    TEST_CASE_FIXTURE(accounting,
                      "nothing was saved: empty; of a batch that others are in, or that is over: refused") {
        temporary_directory here;
        CHECK(tenure::restore(here.path()).empty());
        CHECK(tenure::restore(here.path() / "missing").empty());
        batch_scope b;
        check_throws(errc::stale_handle, {}, [] { tenure::give_name(buffer<int>(), "x"); });
        check_throws(errc::out_of_range, {"name"}, [&] { tenure::give_name(b.make_buffer<int>(1), ""); });
        std::thread([&] {
            check_throws(errc::batch_in_use, {"save"}, [&] { tenure::save(b.id(), here.path()); });
        }).join();
        auto const id = b.id();
        b.end();
        check_throws(errc::batch_ended, {"save"}, [&] { tenure::save(id, here.path()); });
    }

    TEST_CASE_FIXTURE(accounting, "one that fails leaves the one before") {
        temporary_directory here;
        batch_scope         b;
        auto const          first = b.make_buffer<int>(1);
        first.write(0, {{1}});
        tenure::give_name(first, "first");
        tenure::save(b, here.path());
        first.write(0, {{2}});
        auto const second = b.make_buffer<int>(1);
        tenure::give_name(second, std::string(400, 'x'));  // fits
        tenure::save(b, here.path());
        CHECK(contents(tenure::restore(here.path()).get<int>("first")) == std::vector{2});
        auto const elsewhere = tenure::mmap_store::open(here.path());  // as another process would
        first.write(0, {{3}});
        check_throws(errc::store_in_use, {}, [&] { tenure::save(b, here.path()); });
        REQUIRE(elsewhere->close());
        CHECK(contents(tenure::restore(here.path()).get<int>("first")) == std::vector{2});
    }

    TEST_CASE_FIXTURE(accounting, "names are rolled back with what they name") {
        temporary_directory here;
        batch_scope         b;
        auto const          data = b.make_buffer<int>(1);
        data.write(0, {{1}});
        tenure::give_name(data, "before");
        b.checkpoint();
        data.write(0, {{2}});
        tenure::give_name(data, "after");
        b.rollback();
        tenure::save(b, here.path());
        auto const saved = tenure::restore(here.path());
        CHECK(contents(saved.get<int>("before")) == std::vector{1});
        CHECK_FALSE(saved.contains("after"));
    }
}

TEST_CASE("a job that is killed again and again comes to the same result") {
    constexpr std::uint64_t steps   = TENURE_SANITIZED ? 60 : 150;
    char const* const       asked   = std::getenv("TENURE_CRASHES");
    char const* const       seeded  = std::getenv("TENURE_SEED");
    int const               crashes = asked ? std::atoi(asked) : 10;
    std::uint64_t const     seed    = seeded ? std::strtoull(seeded, nullptr, 10) : 1;
    std::mt19937_64         dice(seed);
    INFO("TENURE_SEED=" << seed);

    temporary_directory  undisturbed, here;
    shared_account const other, account;
    auto const           start    = std::chrono::steady_clock::now();
    auto const           expected = work(undisturbed.path(), steps, *other);
    auto const           took     = std::chrono::steady_clock::now() - start;
    CHECK(other->resumed == 0);
    CHECK(other->steps == steps);

    int killed = 0, finished = 0;
    while (killed < crashes) {
        std::uint64_t const saves = account->saves;
        ::pid_t const       child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            try {
                work(here.path(), steps, *account);
            } catch (std::exception const& e) {
                std::fprintf(stderr, "child: %s\n", e.what());
                ::_exit(1);
            }
            ::_exit(0);
        }
        // Every other one, and so the last, has saved something before; however slow this machine is today.
        if ((crashes - killed) % 2 == 1)
            while (account->saves == saves && !has_ended(child))
                std::this_thread::sleep_for(std::chrono::microseconds(50));
        auto const share = std::chrono::duration_cast<std::chrono::microseconds>(took).count() / crashes;
        std::this_thread::sleep_for(std::chrono::microseconds(dice() % static_cast<std::uint64_t>(share + 1)));
        ::kill(child, SIGKILL);
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        batch_scope const b;
        auto const        saved = tenure::restore(here.path());
        // No save is lost that had returned; one may be there that had not.
        std::uint64_t const at = saved.empty() ? 0 : contents(saved.get<std::uint64_t>("step"))[0];
        CHECK(at >= account->saved);
        CHECK(at <= account->saved + steps_a_save);
        if (WIFSIGNALED(status)) {
            ++killed;
            account->saved = at;
        } else {  // it was faster, and another one begins
            REQUIRE(WEXITSTATUS(status) == 0);
            ++finished;
            CHECK(contents(saved.get<std::uint64_t>("state")) == expected);
            std::filesystem::remove_all(here.path());
            account->saved = 0;
        }
    }
    CHECK(work(here.path(), steps, *account) == expected);
    CHECK(account->resumed > 0);
    // Nothing was done anew but what came after a save.
    auto const k = static_cast<std::uint64_t>(killed), whole = static_cast<std::uint64_t>(finished) + 1;
    CHECK(account->steps >= whole * steps);
    CHECK(account->steps <= whole * steps + k * steps_a_save);
    MESSAGE(killed << " forced stops; " << account->resumed.load() << " times it went on from a save, and did "
                   << account->steps.load() - whole * steps << " steps anew");
}

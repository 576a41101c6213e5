// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A process that keeps and syncs in a loop is killed at a random moment, TENURE_CRASHES times. Then all that was
// synced is there, nothing else is, and the space is accounted for.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <doctest/doctest.h>

#include <tenure/store/durable_mmap.hpp>

#include "temporary.hpp"

namespace {

using tenure::block;
using tenure::mmap_store;
using store = std::shared_ptr<tenure::durable_mmap_store>;
using bytes = std::vector<std::byte>;

constexpr std::size_t how_many_names = 24;

/// What a name should have: nothing, or that many bytes made from a seed.
struct version {
    std::uint64_t seed  = 0;
    std::size_t   bytes = 0;
    bool          there = false;
};
using state = std::array<version, how_many_names>;

/// Told by the child in memory that outlives it: what it is about to sync, and what it has.
struct shared_board {
    state                      states[2];
    std::atomic<std::uint64_t> announced{0}, done{0};

    state const& of(std::uint64_t n) const { return states[n % 2]; }
};

std::string name(std::size_t i) { return "name " + std::to_string(i); }

bytes pattern(std::uint64_t seed, std::size_t n) {
    bytes all(n);
    for (std::size_t i = 0; i < n; ++i) {
        if (i % 8 == 0) seed = seed * 6364136223846793005u + 1442695040888963407u;
        all[i] = static_cast<std::byte>(seed >> (i % 8 * 8));
    }
    return all;
}

/// Until it is killed.
[[noreturn]] void live(std::filesystem::path const& directory, shared_board& board, std::uint64_t seed) {
    auto const fail = [](int why) { ::_exit(why); };
    try {
        std::mt19937_64 dice(seed);
        auto const      s   = mmap_store::open(directory, {.keep_warm = dice() % 2 ? std::size_t{0} : 1u << 20});
        state           now = board.of(board.done);
        for (std::uint64_t k = board.done + 1;; ++k) {
            std::vector<block> many;
            if (dice() % 3 == 0 && !s->allocate(dice() % 100'000, 1)) fail(2);  // unkept
            if (dice() % 3 == 0) {                                              // kept, and never synced
                auto const b = s->allocate(dice() % 10'000, 1);
                if (!b || !s->keep(*b, "never synced " + std::to_string(dice() % 5))) fail(3);
            }
            if (dice() % 3 == 0) {  // changed, and not synced: unless it gets all new contents below
                if (auto const b = s->find(name(dice() % how_many_names)); b && b->bytes)
                    std::memset(s->address(*b).value(), 0xee, b->bytes / 2 + 1);
            }
            for (std::uint64_t changes = dice() % 4; changes-- > 0;) {
                std::size_t const i = dice() % how_many_names;
                auto const        b = s->find(name(i));
                switch (dice() % 5) {
                case 0:  // freed
                    if (b && !s->deallocate({{*b}})) fail(4);
                    now[i] = {};
                    break;
                case 1:  // in place
                    if (b) {
                        now[i].seed     = dice();
                        bytes const all = pattern(now[i].seed, b->bytes);
                        if (dice() % 2) {
                            if (!s->write(*b, 0, all)) fail(5);
                        } else {
                            std::memcpy(s->address(*b).value(), all.data(), all.size());
                        }
                        break;
                    }
                    [[fallthrough]];
                default: {  // new, or in place of another
                    now[i]       = {dice(), dice() % (dice() % 8 ? 20'000 : 500'000), true};
                    auto const n = s->allocate(now[i].bytes, 1);
                    if (!n || !s->write(*n, 0, pattern(now[i].seed, now[i].bytes)) || !s->keep(*n, name(i)))
                        fail(6);
                }
                }
            }
            for (std::size_t i = 0; i < how_many_names; ++i) {
                version const& before = board.of(k - 1)[i];
                if (now[i].there && (!before.there || now[i].seed != before.seed))
                    many.push_back(s->find(name(i)).value());
            }
            board.states[k % 2] = now;
            board.announced     = k;
            if (!s->sync(many)) fail(7);
            board.done = k;
        }
    } catch (std::exception const& e) {
        std::fprintf(stderr, "child: %s\n", e.what());
        fail(8);
    }
    std::abort();
}

/// Whether the store is in that state.
bool is_in(store const& s, state const& expected) {
    std::size_t           sum = 0, blocks = 0;
    std::set<std::string> names;
    for (std::size_t i = 0; i < how_many_names; ++i) {
        version const& v = expected[i];
        if (!v.there) continue;
        names.insert(name(i));
        sum += v.bytes;
        ++blocks;
        auto const b = s->find(name(i));
        if (!b || b->bytes != v.bytes) return false;
        bytes out(v.bytes);
        if (!s->read(*b, 0, out)) {
            FAIL_CHECK("corrupt");
            return false;
        }
        if (out != pattern(v.seed, v.bytes)) return false;
    }
    auto const there = s->names();
    return std::set<std::string>(there.begin(), there.end()) == names &&
           s->usage() == tenure::store_usage{sum, blocks, 0};
}

}  // namespace

TEST_CASE("killed at any moment") {
    char const* const asked   = std::getenv("TENURE_CRASHES");
    char const* const seeded  = std::getenv("TENURE_SEED");
    int const         crashes = asked ? std::atoi(asked) : TENURE_SANITIZED ? 10 : 50;
    std::uint64_t     seed    = seeded ? std::strtoull(seeded, nullptr, 10) : 1;
    std::mt19937_64   dice(seed);
    INFO("TENURE_SEED=" << seed);

    temporary_directory here;
    void* const         memory =
        ::mmap(nullptr, sizeof(shared_board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    auto& board = *new (memory) shared_board;

    std::uint64_t in_sync = 0, newer = 0;
    for (int crash = 0; crash < crashes; ++crash) {
        CAPTURE(crash);
        std::uint64_t const first    = board.done;
        std::uint64_t const its_seed = dice();
        ::pid_t const       child    = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) live(here.path(), board, its_seed);
        std::this_thread::sleep_for(std::chrono::microseconds(dice() % (TENURE_SANITIZED ? 200'000 : 60'000)));
        ::kill(child, SIGKILL);
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        REQUIRE_MESSAGE(WIFSIGNALED(status), "the child ended with " << WEXITSTATUS(status));
        REQUIRE(WTERMSIG(status) == SIGKILL);

        auto const          s    = mmap_store::open(here.path());
        std::uint64_t const done = board.done, announced = board.announced;
        CAPTURE(done - first);
        bool const old = is_in(s, board.of(done));
        if (announced > done) ++in_sync;
        if (!old) {
            REQUIRE(announced == done + 1);
            REQUIRE(is_in(s, board.of(announced)));
            board.done = announced;
            ++newer;
        }
        board.announced = board.done.load();

        std::uint64_t needed = 0;
        for (version const& v : board.of(board.done))
            if (v.there) needed += std::max<std::uint64_t>((v.bytes + 4095) / 4096 * 4096, 4096);
        struct ::stat about{};
        REQUIRE(::stat((here.path() / "data").c_str(), &about) == 0);
        auto const used = static_cast<std::uint64_t>(about.st_blocks) * 512;
        CHECK(used >= needed);
        CHECK(used <= needed + 200'000);  // headers, and the file system's own blocks
        REQUIRE(s->close().has_value());
    }
    MESSAGE(board.done.load() << " syncs, " << crashes << " crashes, " << in_sync << " of them in a sync, " << newer
                              << " of which had come through");
    ::munmap(memory, sizeof(shared_board));
}

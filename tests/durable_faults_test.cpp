// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Programs of a durable store on a disk that is recorded call by call (recorded_disk.hpp). Before each call that
// changes something the machine may stop: of what was synced, and of what was not, states of the disk are made, and
// opened. And each call fails in turn. Whatever happens, a name has what its last sync() that returned said, or
// what the one in progress was to say.

#include "recorded_disk.hpp"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/store/durable_mmap.hpp>

#include "temporary.hpp"

namespace {

using recorded::bytes;
using recorded::disk;
using tenure::block;
using tenure::errc;
using tenure::mmap_store;
using store = std::shared_ptr<tenure::durable_mmap_store>;
using state = std::map<std::string, bytes>;  ///< what names have

bytes pattern(std::uint64_t seed, std::size_t n) {
    bytes all(n);
    for (std::size_t i = 0; i < n; ++i) {
        if (i % 8 == 0) seed = seed * 6364136223846793005u + 1442695040888963407u;
        all[i] = static_cast<std::byte>(seed >> (i % 8 * 8) | 1);
    }
    return all;
}

std::optional<state> state_of(store const& s) {
    recorded::pause const here;
    state                 out;
    for (auto const& name : s->names()) {
        block const b = s->find(name).value();
        bytes       all(b.bytes);
        if (!s->read(b, 0, all)) return std::nullopt;
        out[name] = std::move(all);
    }
    return out;
}

/// Stores are opened many times over: in memory, where there is a file system in memory.
std::filesystem::path scratch_directory() {
    std::filesystem::path const memory = "/dev/shm";
    return ::access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
}

constexpr tenure::durable_options few_addresses(bool read_only = false) {
    return {.read_only = read_only, .keep_warm = 0, .address_space = std::size_t{1} << 30};
}

/// Stores of processes that were killed: never destroyed.
std::vector<store>& graveyard() {
    static auto* const all = new std::vector<store>;
    return *all;
}

struct gave_up {};

/// A store, what it has promised, and what has become of it.
class life {
public:
    life(std::uint64_t seed, unsigned one_crash_in)
        : disk_(std::filesystem::canonical(here_.path()) / "store"), dice_(seed), one_in_(one_crash_in) {
        disk_.before_change = [this] {
            if (one_in_ && dice_() % one_in_ == 0) crash();
        };
    }
    life(life const&)            = delete;
    life& operator=(life const&) = delete;

    disk&                           recorder() { return disk_; }
    std::vector<std::string> const& problems() const { return problems_; }
    long                            crashes() const { return crashes_; }

    // Steps.

    void open() {
        try {
            s_ = mmap_store::open(disk_.root(), few_addresses());
        } catch (tenure::error const& e) {
            if (!disk_.failed || recovering_) {
                problem(std::string("open: ") + e.what());
                throw gave_up();
            }
            after_failure(e.code());
            return;
        }
        adopt("opened");
    }
    void put(std::string const& name, std::size_t n) {
        auto const b = s_->allocate(n, 1);
        if (!b) return step_failed("allocate", b.error());
        bytes const all = pattern(dice_(), n);
        if (auto const done = s_->write(*b, 0, all); !done) return step_failed("write", done.error());
        if (auto const done = s_->keep(*b, name); !done) return step_failed("keep", done.error());
        kept_[name] = all;
    }
    void change(std::string const& name, bool through_address) {
        auto const b = s_->find(name);
        if (!b) return;
        bytes const all = pattern(dice_(), b->bytes);
        if (through_address) {
            auto const p = s_->address(*b);
            if (!p) return step_failed("address", p.error());
            std::copy(all.begin(), all.end(), *p);
        } else if (auto const done = s_->write(*b, 0, all); !done) {
            kept_.erase(name);  // has who knows what now
            (void)s_->deallocate({{*b}});
            return step_failed("write", done.error());
        }
        kept_[name] = all;
    }
    void rename(std::string const& from, std::string const& to) {
        auto const b = s_->find(from);
        if (!b || from == to) return;
        if (auto const done = s_->keep(*b, to); !done) return step_failed("keep", done.error());
        kept_[to] = kept_[from];
        kept_.erase(from);
    }
    void remove(std::string const& name) {
        auto const b = s_->find(name);
        if (!b) return;
        if (auto const done = s_->deallocate({{*b}}); !done) return step_failed("deallocate", done.error());
        kept_.erase(name);
    }
    void unkept(std::size_t n) {
        auto const b = s_->allocate(n, 1);
        if (!b) return step_failed("allocate", b.error());
    }
    void look(std::string const& name) {
        auto const b = s_->find(name);
        if (!b) return;
        bytes all(b->bytes);
        if (auto const done = s_->read(*b, 0, all); !done) return step_failed("read", done.error());
        if (all != kept_[name]) problem("read: something else");
    }
    void sync() {
        std::vector<block> all;
        for (auto const& [name, contents] : kept_) all.push_back(s_->find(name).value());
        announced_ = kept_;
        if (auto const done = s_->sync(all); !done) return step_failed("sync", done.error());
        promised_ = kept_;
        announced_.reset();
    }
    void close_and_open() {
        announced_ = kept_;
        if (auto const done = s_->close(); !done) return step_failed("close", done.error());
        promised_ = kept_;
        announced_.reset();
        s_.reset();
        if (disk_.open_files() != 0) problem("files are open after close()");
        open();
    }
    void kill_and_open() {
        kill();
        open();
    }
    void end() {
        // Some calls may fail unheard, for what they do is no promise: the punching of holes, the data's header.
        if (disk_.failed && !heard_ && disk_.failed_call.find("sync") != std::string::npos)
            problem("a sync that failed was ignored");
        drop();
        one_in_ = 1;
        for (int i = 0; i < 4; ++i) crash();
        if (disk_.open_files() != 0) problem("files are open at the end");
    }

    std::uint64_t roll(std::uint64_t n) { return dice_() % n; }

private:
    void problem(std::string what) {
        what += "; after " + std::to_string(disk_.calls) + " calls, failed: " + disk_.failed_call;
        if (problems_.size() < 20) problems_.push_back(std::move(what));
    }

    bool expected(std::optional<state> const& found) const {
        return found && (*found == promised_ || (announced_ && *found == *announced_));
    }

    /// What is on the disk now, in one of the ways in which it may be, is a store with what was promised.
    void crash() {
        ++crashes_;
        recorded::pause const here;
        auto const            kind  = static_cast<disk::kind>(dice_() % 3);
        auto const            where = crashed_.path() / "store";
        char const* const     names[]{"durable", "current", "torn"};
        std::string const     label = std::string("crash, ") + names[static_cast<int>(kind)] + ": ";
        disk_.crash(where, kind, dice_);
        try {
            bool const reads = dice_() % 4 == 0 && std::filesystem::exists(where / "data");
            auto       s     = mmap_store::open(where, few_addresses(reads));
            if (!expected(state_of(s))) problem(label + "not what was promised");
            if (!reads && dice_() % 4 == 0) {  // and it goes on from there
                block const b = s->allocate(100, 1).value();
                if (!s->keep(b, "afterwards") || !s->close()) problem(label + "cannot go on");
                s = mmap_store::open(where, few_addresses(true));
                if (!s->find("afterwards")) problem(label + "forgets");
            }
        } catch (tenure::error const& e) {
            problem(label + e.what());
        }
        std::filesystem::remove_all(where);
    }

    /// Which closes it, or tries to.
    void drop() {
        bool const failed = disk_.failed;
        if (s_ && !announced_) announced_ = kept_;
        s_.reset();
        if (!failed && disk_.failed) heard_ = true;  // in a destructor, where nobody could be told
    }

    void kill() {
        recorded::pause const here;
        if (s_) graveyard().push_back(std::move(s_));
        s_.reset();
        disk_.close_all();
    }

    /// It was opened: from now on only this will do.
    void adopt(char const* how) {
        auto found = state_of(s_);
        if (!expected(found)) problem(std::string(how) + ": not what was promised");
        if (!found) found.emplace();
        promised_ = kept_ = std::move(*found);
        announced_.reset();
    }

    void step_failed(char const* what, std::error_code e) {
        if (!disk_.failed || recovering_) {
            problem(std::string(what) + " fails without a reason: " + e.message());
            throw gave_up();
        }
        if (state_of(s_) != kept_) problem(std::string(what) + ": its failure has changed what is in memory");
        after_failure(e);
    }

    /// A call has failed, once. Either the process goes on with the store as it is, or another opens it.
    void after_failure(std::error_code e) {
        recovering_ = heard_ = true;
        bool const full      = e == errc::store_full || e == errc::memory_full;
        if (s_ && dice_() % 2) {
            auto const again = s_->sync({});
            if (announced_ && !full && again) problem("a sync() after one that failed with " + e.message());
            if (announced_ && !full && !again && again.error() != e) problem("it fails otherwise: " + e.message());
            if (full && !again) problem("no second try after " + e.message() + ": " + again.error().message());
            if (again) {
                sync();
                recovering_ = false;
                return;
            }
        }
        if (dice_() % 2) kill();
        else drop();
        if (one_in_ > 1) one_in_ /= 2;  // now it matters
        open();
        recovering_ = false;
    }

    temporary_directory      here_{scratch_directory()}, crashed_{scratch_directory()};
    disk                     disk_;
    std::mt19937_64          dice_;
    unsigned                 one_in_;
    store                    s_;
    state                    promised_, kept_;
    std::optional<state>     announced_;
    bool                     recovering_ = false;
    bool                     heard_      = false;  ///< of the call that failed
    long                     crashes_    = 0;
    std::vector<std::string> problems_;
};

/// All that a store does, each thing at least once.
void everything(life& l) {
    l.open();
    l.put("a", 100);
    l.put("b", 20'000);
    l.put("c", 70'000);
    l.sync();
    l.change("a", false);
    l.change("b", true);
    l.sync();
    l.change("b", true);
    l.put("d", 5'000);
    l.rename("a", "e");
    l.sync();
    l.put("a", 3'000);
    l.remove("c");
    l.unkept(40'000);
    l.sync();
    for (int i = 0; i < 3; ++i) {  // to and fro between two places
        l.change("b", i % 2 == 0);
        l.sync();
    }
    l.put("unsynced", 1'000);
    l.close_and_open();
    l.look("d");
    l.change("e", false);
    l.put("f", 0);
    l.sync();
    l.change("b", true);
    l.put("lost", 2'000);
    l.kill_and_open();
    l.put("b", 9'000);
    l.put("g", 300);
    l.sync();
    for (char const* const name : {"a", "b", "d", "e"}) l.remove(name);
    l.sync();
    l.put("h", 50'000);
    l.close_and_open();
    l.end();
}

void random_program(life& l, int steps) {
    l.open();
    for (int i = 0; i < steps; ++i) {
        std::string const name = "name " + std::to_string(l.roll(8)), other = "name " + std::to_string(l.roll(8));
        switch (l.roll(10)) {
        case 0:
        case 1: l.put(name, l.roll(l.roll(4) ? 5'000 : 90'000)); break;
        case 2: l.change(name, true); break;
        case 3: l.change(name, false); break;
        case 4: l.rename(name, other); break;
        case 5: l.remove(name); break;
        case 6:
            l.look(name);
            l.roll(3) ? l.unkept(l.roll(30'000)) : l.close_and_open();
            break;
        case 7: l.roll(2) ? l.kill_and_open() : l.sync(); break;
        default: l.sync();
        }
    }
    l.end();
}

template <class F>
void recording(life& l, F f) {
    recorded::now = &l.recorder();
    try {
        f(l);
    } catch (gave_up const&) {
        CHECK_FALSE(l.problems().empty());
    }
    recorded::now = nullptr;
}

void check(life const& l) {
    for (std::string const& p : l.problems()) FAIL_CHECK(p);
}

}  // namespace

TEST_CASE("the machine stops before any call") {
    life l(1, 1);
    recording(l, everything);
    check(l);
    auto const& counts = l.recorder().counts;
    CHECK(counts.at("writev") > 5);  // which is LMDB's: it is recorded, too
    CHECK(counts.at("fdatasync") > 20);
    CHECK(counts.at("fsync of the directory") >= 3);
    CHECK(counts.at("fsync of its parent") >= 3);
    MESSAGE(l.crashes() << " crashes in " << l.recorder().calls << " calls");
}

TEST_CASE("each call fails in turn") {
    long runs = 0, crashes = 0;
    for (int const why : {EIO, ENOSPC}) {
        for (long n = 1, step = TENURE_SANITIZED ? 7 : why == EIO ? 1 : 2;; n += step) {
            CAPTURE(why);
            CAPTURE(n);
            life l(static_cast<std::uint64_t>(n), 40);
            l.recorder().fail_at  = n;
            l.recorder().fail_why = why;
            recording(l, everything);
            check(l);
            ++runs;
            crashes += l.crashes();
            if (!l.recorder().failed) break;
        }
    }
    CHECK(runs > (TENURE_SANITIZED ? 40 : 300));
    MESSAGE(runs << " runs, " << crashes << " crashes");
}

TEST_CASE("a reader opens while a writer's files grow, before each that it opens") {
    temporary_directory const here{scratch_directory()};
    store const               writer = mmap_store::open(here.path());
    auto const                add    = [&](std::string const& name) {
        bytes const what = pattern(1, 300'000);
        block const b    = writer->allocate(what.size(), 1).value();
        REQUIRE(writer->write(b, 0, what).has_value());
        REQUIRE(writer->keep(b, name).has_value());
        REQUIRE(writer->sync({&b, 1}).has_value());
    };
    add("first");
    int passed = 0;
    for (int n = 1; passed + 1 >= n; ++n) {
        passed                   = 0;
        recorded::before_opening = [&] {
            if (++passed == n) add(std::to_string(n));
        };
        auto const reader        = mmap_store::open(here.path(), {.read_only = true});
        recorded::before_opening = nullptr;
        CHECK(state_of(reader).value().at("first") == pattern(1, 300'000));
    }
    CHECK(passed > 2);  // its directory, the catalog and the data
}

TEST_CASE("random programs, with a call that fails, and crashes") {
    char const* const asked = std::getenv("TENURE_STEPS");
    int const         runs  = asked ? std::max(10, std::atoi(asked) / 100) : TENURE_SANITIZED ? 10 : 60;
    char const* const from  = std::getenv("TENURE_SEED");
    std::uint64_t     seed  = from ? std::strtoull(from, nullptr, 10) : 1;
    for (int i = 0; i < runs; ++i, ++seed) {
        INFO("TENURE_SEED=" << seed);
        life l(seed, 12);
        if (seed % 2) {
            l.recorder().fail_at  = 1 + static_cast<long>(l.roll(250));
            l.recorder().fail_why = seed % 4 == 1 ? EIO : ENOSPC;
        }
        recording(l, [](life& of) { random_program(of, 30); });
        check(l);
    }
}

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// The library under its guard: ids in place of scopes, each case written as a program would that has no destructors
// to lean on. Whatever is done by hand here can go wrong half way, so each is also done with an exception.

#include <array>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "journal.hpp"
#include "throws.hpp"

namespace {

using tenure::batch_id;
using tenure::batch_scope;
using tenure::batch_status;
using tenure::cleanup;
using tenure::errc;
using tenure::handle;
using tenure::registry;

/// What other languages write behind a try.
template <class F>
class finally {
public:
    explicit finally(F f) : call_(std::move(f)) {}
    ~finally() { call_(); }
    finally(finally const&)            = delete;
    finally& operator=(finally const&) = delete;

private:
    F call_;
};

struct own_registry : accounting {
    registry   r;
    accounting books{r};
};

std::string sentence(std::size_t i) { return "sentence number " + std::to_string(i) + ", told at some length"; }

/// A call that uses a lot and returns a little: its caller has no idea of batches.
handle<std::string> summary(registry& r, journal& log, bool fail = false) {
    batch_id const job      = r.new_batch({.name = "job"}, r.root());
    batch_id const previous = r.set_current_batch(job);
    finally const  cleanup([&] {
        r.set_current_batch(previous);
        r.destroy_batch(job);
    });
    std::string    text;
    for (std::size_t i = 0; i < 100; ++i) {
        tenure::make<traced>(log, static_cast<int>(i));
        text += *tenure::make<std::string>(sentence(i));
    }
    if (fail) throw std::runtime_error("half way");
    auto const result = tenure::make<std::string>(text.substr(0, 16));
    return tenure::transfer_ownership(result, previous);
}

}  // namespace

TEST_SUITE("try: set current, do, transfer; finally: restore, destroy") {
    TEST_CASE_FIXTURE(own_registry,
                      "what was transferred stays, the rest is gone, and the caller's batch is current") {
        journal        log;
        batch_id const caller = r.new_batch({.name = "caller"});
        batch_id const before = r.set_current_batch(caller);
        auto const     text   = summary(r, log);
        CHECK(*text == "sentence number ");
        CHECK(text.owner() == caller);
        CHECK(log.alive == 0);
        CHECK(tenure::current_batch() == caller);
        CHECK(r.usage(caller).objects == 1);
        r.set_current_batch(before);
        r.destroy_batch(caller);
        CHECK_FALSE(text.alive());
    }

    TEST_CASE_FIXTURE(own_registry, "an exception half way leaves nothing behind") {
        journal        log;
        batch_id const caller = r.new_batch();
        batch_id const before = r.set_current_batch(caller);
        CHECK_THROWS_AS(summary(r, log, true), std::runtime_error);
        CHECK(log.ended.size() == 100);
        CHECK(log.ended.front() == 99);
        CHECK(tenure::current_batch() == caller);
        CHECK(r.usage(caller).objects == 0);
        r.set_current_batch(before);
        r.destroy_batch(caller);
    }

    TEST_CASE_FIXTURE(own_registry, "in a caller that has a guard; and destroyed before it is left") {
        journal        log;
        batch_scope    caller{r};
        auto const     text = summary(r, log);
        batch_id const job  = r.new_batch();
        {
            batch_id const previous = r.set_current_batch(job);
            CHECK(previous == caller.id());
            tenure::make<traced>(log, 1000);
            r.destroy_batch(job);
            CHECK(r.status(job) == batch_status::ending);  // this thread is inside
            CHECK(log.alive == 1);
            r.set_current_batch(previous);
        }
        CHECK(r.status(job) == batch_status::done);
        CHECK(log.alive == 0);
        CHECK(text.owner() == caller.id());
    }

    TEST_CASE_FIXTURE(own_registry, "a list, moved by one call") {
        journal                     log;
        batch_id const              job = r.new_batch(), sink = r.new_batch();
        std::vector<handle<traced>> results;
        batch_id const              before = r.set_current_batch(job);
        for (int i = 0; i < 1000; ++i) {
            auto const h = tenure::make<traced>(log, i);
            if (i % 10 == 0) results.push_back(h);
        }
        CHECK(&r.transfer_ownership(results, sink) == &results);
        CHECK(tenure::transfer_ownership(std::array{results[0], results[1]}, sink)[1] ==
              results[1]);  // there already
        r.set_current_batch(before);
        r.destroy_batch(job);
        CHECK(log.alive == 100);
        CHECK(r.usage(sink).objects == 100);

        // One that is stale: then none goes.
        batch_id const other = r.new_batch();
        r.free(results.back());
        check_throws(errc::stale_handle, {}, [&] { r.transfer_ownership(results, other); });
        CHECK(r.try_transfer_ownership(results, other).error() == errc::stale_handle);
        CHECK(r.usage(other).objects == 0);
        results.pop_back();
        CHECK(r.try_transfer_ownership(results, other));
        r.destroy_batch(sink);
        CHECK(log.alive == 99);
        r.destroy_batch(other);
        CHECK(log.alive == 0);
    }

    TEST_CASE_FIXTURE(own_registry, "restoring what is over by now is refused, not fatal") {
        batch_id const outer = r.new_batch(), inner = r.new_batch();
        batch_id const before   = r.set_current_batch(outer);
        batch_id const previous = r.set_current_batch(inner);
        CHECK(previous == outer);
        r.destroy_batch(outer);  // by somebody, meanwhile
        CHECK(r.status(outer) == batch_status::done);
        CHECK(r.try_set_current_batch(previous).error() == errc::batch_ended);
        CHECK(tenure::current_batch() == inner);
        check_throws(errc::batch_ended, {to_text(outer)}, [&] { r.set_current_batch(previous); });
        CHECK(r.try_set_current_batch(batch_id{}).error() == errc::no_such_batch);
        CHECK(*r.try_set_current_batch(before) == inner);
        CHECK(tenure::current_batch() == before);
        r.destroy_batch(inner);
    }

    TEST_CASE_FIXTURE(own_registry, "on several threads, into one batch") {
        constexpr int  threads = 4, rounds = TENURE_SANITIZED ? 50 : 500;
        batch_id const all = r.new_batch({.name = "all"});
        {
            std::vector<std::jthread> crew;
            for (int t = 0; t < threads; ++t)
                crew.emplace_back([&] {
                    journal log;
                    for (int i = 0; i < rounds; ++i) {
                        batch_id const before = r.set_current_batch(all);
                        try {
                            (void)summary(r, log, i % 3 == 0);
                        } catch (std::runtime_error const&) {
                            tenure::make<std::string>("it threw, which is worth a note that is not short");
                        }
                        r.set_current_batch(before);
                    }
                    CHECK(log.alive == 0);
                });
        }
        CHECK(r.usage(all).objects == threads * rounds);
        r.destroy_batch(all);
    }
}

TEST_SUITE("cleanup::manual, then destroy") {
    TEST_CASE_FIXTURE(own_registry, "what a block made outlives it, until somebody says so") {
        journal               log;
        std::vector<batch_id> left;
        for (int i = 0; i < 10; ++i) {
            batch_scope b{r, {.name = "page", .cleanup = cleanup::manual}};
            b.make<traced>(log, i);
            left.push_back(b.id());
        }
        CHECK(log.alive == 10);
        for (batch_id const id : left) {
            r.end_batch(id);
            CHECK(r.status(id) == batch_status::retained);
        }
        for (batch_id const id : left) r.destroy_batch(id);
        CHECK(log.ended == std::vector{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    }

    TEST_CASE_FIXTURE(own_registry, "by ids alone; the end of its parent does not take it") {
        journal        log;
        batch_id const parent = r.new_batch();
        batch_id const job    = r.new_batch({.cleanup = cleanup::manual}, parent);
        batch_id const before = r.set_current_batch(job);
        auto const     h      = tenure::make<traced>(log, 1);
        r.set_current_batch(before);
        r.destroy_batch(parent);
        CHECK(r.status(parent) == batch_status::done);
        CHECK(r.status(job) == batch_status::retained);
        CHECK(h->number() == 1);
        CHECK(r.try_set_current_batch(job).error() == errc::batch_ended);
        r.destroy_batch(job);
        CHECK(log.alive == 0);
    }

    TEST_CASE_FIXTURE(own_registry, "the one result is moved out first") {
        journal        log;
        batch_id const sink = r.new_batch();
        handle<traced> result;
        batch_id       id;
        {
            batch_scope b{r, {.cleanup = cleanup::manual}};
            id     = b.id();
            result = b.make<traced>(log, 1);
            b.make<traced>(log, 2);
        }
        r.transfer_ownership(result, sink);
        r.destroy_batch(id);
        CHECK(log.ended == std::vector{2});
        CHECK(result.owner() == sink);
        r.destroy_batch(sink);
    }
}

namespace {

struct account {
    explicit account(journal& j, int n) : entry(j, n) {}
    traced entry;
    int    balance = 0;
};

/// Keeps its results one by one, and finds out at the last that they are worth nothing.
void transaction(journal& log, int first, bool fail) {
    batch_scope t{{.name = "transaction"}};
    for (int i = 0; i < 50; ++i) {
        t.keep(t.make<account>(log, first + i));
        t.make<account>(log, 10'000 + i);
    }
    if (fail) t.discard();
}

}  // namespace

TEST_SUITE("discard: what was kept is taken back") {
    TEST_CASE_FIXTURE(accounting, "of the one that failed, and of no other") {
        journal     log;
        batch_scope day;
        transaction(log, 0, false);
        transaction(log, 100, true);
        transaction(log, 200, false);
        CHECK(day.usage().objects == 100);
        CHECK(log.alive == 100);
        day.end();
        CHECK(log.ended.back() == 0);
    }

    TEST_CASE_FIXTURE(accounting, "from wherever it was kept to since, as long as it lives") {
        journal     log;
        batch_scope top;
        batch_scope middle;
        batch_scope t;
        auto const  kept = t.keep(t.make<account>(log, 1)), far = t.keep(t.make<account>(log, 2));
        auto const  freed = t.keep(t.make<account>(log, 3));
        middle.keep(far);
        middle.free(freed);
        CHECK(far.owner() == top.id());
        auto const report = t.discard();
        CHECK(report.status == batch_status::done);
        CHECK_FALSE(kept.alive());
        CHECK_FALSE(far.alive());
        CHECK(log.alive == 0);
    }
}

namespace {

struct node {
    int                        depth;
    std::vector<handle<node>>  children{};
    std::array<std::string, 2> notes{"some text that is too long to lie in the string itself", "and more of it"};
};

int count(handle<node> const& n) {
    int sum = 1;
    for (handle<node> const& c : n->children) sum += count(c);
    return sum;
}

/// What the level below returned belongs to this one, and goes up with its own.
handle<node> by_guards(int depth, std::vector<handle<node>>& made) {
    batch_scope               level;
    auto const                mine = level.make<node>(depth);
    std::vector<handle<node>> below;
    for (int i = 0; depth > 0 && i < 3; ++i) mine->children.push_back(by_guards(depth - 1, below));
    for (int i = 0; i < 20; ++i) level.make<node>(-1);  // what it needed itself
    level.keep(below);
    made.insert(made.end(), below.begin(), below.end());
    made.push_back(mine);
    return level.keep(mine);
}

handle<node> by_ids(registry& r, int depth, std::vector<handle<node>>& made) {
    batch_id const    level    = r.new_batch({}, tenure::current_batch());
    batch_id const    previous = r.set_current_batch(level);
    finally const     cleanup([&] {
        r.set_current_batch(previous);
        r.destroy_batch(level);
    });
    auto const        mine  = tenure::make<node>(depth);
    std::size_t const first = made.size();
    for (int i = 0; depth > 0 && i < 3; ++i) mine->children.push_back(by_ids(r, depth - 1, made));
    for (int i = 0; i < 20; ++i) tenure::make<node>(-1);
    made.push_back(mine);
    for (std::size_t i = first; i < made.size(); ++i) tenure::keep(made[i]);
    return mine;
}

constexpr int all = 1 + 3 + 9 + 27 + 81;

}  // namespace

TEST_SUITE("results kept through five levels") {
    TEST_CASE_FIXTURE(accounting, "by guards") {
        std::vector<handle<node>> made;
        batch_scope               top;
        handle<node> const        root = by_guards(4, made);
        CHECK(count(root) == all);
        CHECK(made.size() == all);
        CHECK(top.usage().objects == all);
        for (handle<node> const h : made) CHECK(h.owner() == top.id());
        top.end();
        for (handle<node> const h : made) CHECK_FALSE(h.alive());
    }

    TEST_CASE_FIXTURE(own_registry, "by ids") {
        std::vector<handle<node>> made;
        batch_id const            top    = r.new_batch();
        batch_id const            before = r.set_current_batch(top);
        handle<node> const        root   = by_ids(r, 4, made);
        CHECK(count(root) == all);
        CHECK(r.usage(top).objects == all);
        for (handle<node> const h : made) CHECK(h.owner() == top);
        r.set_current_batch(before);
        r.destroy_batch(top);
        CHECK_FALSE(root.alive());
    }
}

namespace {

/// Neither who puts something in nor who takes it out knows of its batch.
class queue {
public:
    explicit queue(registry& r) : registry_(r), id_(r.new_batch({.name = "queue"})) {}
    ~queue() { registry_.destroy_batch(id_); }
    queue(queue const&)            = delete;
    queue& operator=(queue const&) = delete;

    void enqueue(std::string const& text) {
        batch_id const previous = registry_.set_current_batch(id_);
        finally const  restore([&] { registry_.set_current_batch(previous); });
        if (text.empty()) throw std::invalid_argument("nothing to say");
        auto const             h = tenure::make<std::string>(text);
        std::scoped_lock const guard(mutex_);
        waiting_.push_back(h);
        changed_.notify_one();
    }
    std::optional<std::string> dequeue() {
        handle<std::string> h;
        {
            std::unique_lock guard(mutex_);
            changed_.wait(guard, [&] { return closed_ || !waiting_.empty(); });
            if (waiting_.empty()) return {};
            h = waiting_.front();
            waiting_.pop_front();
        }
        std::string text = std::move(*h);
        registry_.free(h);
        return text;
    }
    void close() {
        std::scoped_lock const guard(mutex_);
        closed_ = true;
        changed_.notify_all();
    }
    std::size_t length() const { return registry_.usage(id_).objects; }
    std::size_t retained() const { return registry_.usage(id_).retained; }

private:
    registry&                       registry_;
    batch_id                        id_;
    std::mutex                      mutex_;
    std::condition_variable         changed_;
    std::deque<handle<std::string>> waiting_;
    bool                            closed_ = false;
};

}  // namespace

TEST_SUITE("a queue whose enqueue makes and whose dequeue, elsewhere, frees") {
    TEST_CASE_FIXTURE(own_registry, "one side and the other, in one thread") {
        queue q(r);
        for (int round = 0; round < 100; ++round) {
            batch_scope    request{r};  // ends between the two: what is queued is none of its
            batch_id const mine = tenure::current_batch();
            for (std::size_t i = 0; i < 10; ++i) q.enqueue(sentence(i));
            CHECK_THROWS_AS(q.enqueue(""), std::invalid_argument);
            CHECK(tenure::current_batch() == mine);
            request.end();
            CHECK(q.length() == 10);
            for (std::size_t i = 0; i < 10; ++i) CHECK(*q.dequeue() == sentence(i));
        }
        CHECK(q.length() == 0);
        CHECK(q.retained() <= 4 * 65'536);
    }

    TEST_CASE_FIXTURE(own_registry, "two that put in, two that take out; what is left goes with it") {
        constexpr std::size_t      each = TENURE_SANITIZED ? 2'000 : 50'000;
        queue                      q(r);
        std::array<std::size_t, 2> taken{};
        {
            std::vector<std::jthread> readers;
            for (std::size_t t = 0; t < 2; ++t)
                readers.emplace_back([&, t] {
                    while (auto const text = q.dequeue()) taken[t] += text->size() > 20;
                });
            {
                std::vector<std::jthread> writers;
                for (int t = 0; t < 2; ++t)
                    writers.emplace_back([&] {
                        for (std::size_t i = 0; i < each; ++i) {
                            batch_scope request{r};
                            request.make<std::string>(sentence(i));
                            q.enqueue(sentence(i));
                        }
                    });
            }
            q.close();
        }
        CHECK(taken[0] + taken[1] == 2 * each);
        CHECK(q.length() == 0);
        for (std::size_t i = 0; i < 10; ++i) q.enqueue(sentence(i));
    }
}

namespace {

/// Remembers what it was asked, in its own batch; answers in its caller's.
class dictionary {
public:
    dictionary(registry& r, batch_id home, journal& log) : registry_(r), home_(home), log_(log) {}

    handle<std::string> look_up(std::string const& word) {
        ++calls_;
        auto const known = known_.find(word);
        if (known != known_.end()) return tenure::make<std::string>(*known->second + ", as before");
        batch_id const previous = registry_.set_current_batch(home_);
        {
            finally const restore([&] { registry_.set_current_batch(previous); });
            tenure::make<traced>(log_, calls_);
            known_.emplace(word, tenure::make<std::string>("the meaning of " + word));
        }
        return tenure::make<std::string>(*known_.at(word));
    }
    int calls() const { return calls_; }

private:
    registry&                                  registry_;
    batch_id                                   home_;
    journal&                                   log_;
    std::map<std::string, handle<std::string>> known_;
    int                                        calls_ = 0;
};

}  // namespace

TEST_SUITE("two batches that call one long-lived object in turn") {
    TEST_CASE_FIXTURE(own_registry, "ended in either order, or in the middle") {
        for (int const order : {12, 21}) {
            CAPTURE(order);
            journal                          log;
            batch_id const                   home   = r.new_batch({.name = "home"});
            batch_id const                   before = r.set_current_batch(home);
            auto const                       words  = tenure::make<dictionary>(r, home, log);
            batch_id const                   one = r.new_batch({.name = "one"}), two = r.new_batch({.name = "two"});
            std::vector<handle<std::string>> ones, twos;
            for (std::size_t i = 0; i < 20; ++i) {
                r.set_current_batch(one);
                ones.push_back(words->look_up(sentence(i)));  // the first to ask
                r.set_current_batch(two);
                twos.push_back(words->look_up(sentence(i)));
                CHECK(*twos.back() == *ones.back() + ", as before");
            }
            batch_id const first = order == 12 ? one : two, second = order == 12 ? two : one;
            auto const&    gone = order == 12 ? ones : twos;
            auto const&    left = order == 12 ? twos : ones;
            r.set_current_batch(second);
            r.destroy_batch(first);
            CHECK(r.status(first) == batch_status::done);
            for (auto const& h : gone) CHECK_FALSE(h.alive());
            for (auto const& h : left) CHECK(h->starts_with("the meaning of"));
            CHECK(*words->look_up(sentence(3)) == "the meaning of " + sentence(3) + ", as before");
            CHECK(words->calls() == 41);
            CHECK(log.alive == 20);
            r.set_current_batch(home);
            r.destroy_batch(second);
            for (auto const& h : left) CHECK_FALSE(h.alive());
            CHECK(words.alive());
            r.set_current_batch(before);
            r.destroy_batch(home);
            CHECK(log.alive == 0);
            CHECK_FALSE(words.alive());
        }
    }

    TEST_CASE_FIXTURE(own_registry, "on two threads, each in its turn") {
        constexpr std::size_t turns = TENURE_SANITIZED ? 200 : 2'000;
        journal               log;
        batch_id const        home   = r.new_batch();
        batch_id const        before = r.set_current_batch(home);
        auto const            words  = tenure::make<dictionary>(r, home, log);
        r.set_current_batch(before);
        std::mutex turn;
        auto const caller = [&](std::size_t first) {
            std::optional<batch_id> mine;
            for (std::size_t i = 0; i < turns; ++i) {
                if (!mine) mine = r.new_batch();
                batch_id const previous = r.set_current_batch(*mine);
                {
                    std::scoped_lock const guard(turn);
                    CHECK(words->look_up(sentence((first + i) % 64))->size() > 30);
                }
                r.set_current_batch(previous);
                if (i % 7 == first) {
                    r.destroy_batch(*mine);
                    mine.reset();
                }
            }
            if (mine) r.destroy_batch(*mine);
        };
        { std::jthread const one(caller, 0), two(caller, 3); }
        CHECK(words->calls() == 2 * turns);
        CHECK(log.alive == 64);
        CHECK(r.usage(home).objects == 129);
        r.destroy_batch(home);
        CHECK(log.alive == 0);
    }
}

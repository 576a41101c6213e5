// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Threads that follow handles while the memory behind them goes, or passes from owner to owner: the smallest
// programs in which the orders of docs/internals/reading.md matter. To be run in many schedules.

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "accounting.hpp"

namespace {

using tenure::batch_id;
using tenure::batch_scope;
using tenure::errc;
using tenure::handle;
using tenure::registry;

/// Handles that some threads show to others, old ones among them.
template <class H>
class board {
public:
    void show(std::size_t place, H h) {
        std::scoped_lock const guard(mutex_);
        shown_[place % shown_.size()] = h;
    }
    H at(std::size_t place) const {
        std::scoped_lock const guard(mutex_);
        return shown_[place % shown_.size()];
    }

private:
    mutable std::mutex mutex_;
    std::array<H, 6>   shown_{};
};

/// Lets the threads that were started before it come to their end, whatever ends this one's work.
class until_left {
public:
    explicit until_left(std::atomic<bool>& over) : over_(over) {}
    ~until_left() { over_ = true; }
    until_left(until_left const&)            = delete;
    until_left& operator=(until_left const&) = delete;

private:
    std::atomic<bool>& over_;
};

/// Another thread, which ends or cancels the batch that `above` names, once each, and then says so in `ended`.
class ender {
public:
    ender(registry& r, bool cancels)
        : thread_([this, &r, cancels] {
              while (!over_) {
                  batch_id const id{above};
                  if (!id || ended == id.value) continue;
                  if (cancels) r.cancel(id);
                  else r.end_batch(id);
                  ended = id.value;
              }
          }) {}
    ~ender() { over_ = true; }
    ender(ender const&)            = delete;
    ender& operator=(ender const&) = delete;

    std::atomic<std::uint64_t> above = 0, ended = 0;

private:
    std::atomic<bool>  over_ = false;
    std::jthread const thread_;  // joined before the others go
};

bool is_gone(std::error_code e) {
    return e == errc::stale_handle || e == errc::batch_ended || e == errc::not_owner;
}

bool is_gone_or_stopped(std::error_code e) { return is_gone(e) || e == errc::cancelled || e == errc::batch_in_use; }

/// Counts its end.
struct counting {
    explicit counting(std::atomic<int>& ended) noexcept : count(ended) {}
    counting(counting const&)            = delete;
    counting& operator=(counting const&) = delete;
    ~counting() { ++count; }
    std::atomic<int>& count;
};

/// Has memory of a resource, and a destructor that gives it back.
struct text {
    explicit text(std::pmr::memory_resource* from) : letters(64, 'x', from) {}
    ~text() { CHECK(letters.back() == 'x'); }
    text(text const&)            = delete;
    text& operator=(text const&) = delete;

    std::pmr::string letters;
};

/// All that a thread can ask of a handle that may be stale.
template <class T>
void ask(registry& r, handle<T> h, unsigned how, batch_id mine) {
    switch (how % 5) {
    case 0: static_cast<void>(h.alive()); break;
    case 1:
        if (auto const done = r.try_free(h); !done) CHECK(is_gone(done.error()));
        break;
    case 2:
        if (auto const done = r.try_transfer_ownership(h, mine); !done) CHECK(is_gone(done.error()));
        break;
    case 3: try { static_cast<void>(h.owner());
        } catch (tenure::error const& e) {
            CHECK(e.code() == errc::stale_handle);
        }
        break;
    default:
        if (auto const done = r.try_share(h, mine); !done) CHECK(is_gone(done.error()));
        break;
    }
}

}  // namespace

// Each thread goes on until the one that opens and ends batches is through: else it would be over long before.

TEST_CASE_TEMPLATE("handles are asked while their store's memory goes and comes back", T, int, std::string) {
    auto const store = std::make_shared<tenure::heap_store>();
    {
        registry          r;
        board<handle<T>>  shown;
        std::atomic<bool> over  = false;
        auto const        asker = [&](unsigned first) {
            batch_scope mine(r);
            for (unsigned i = first; !over; ++i) ask(r, shown.at(i), i, mine.id());
        };
        std::jthread const one(asker, 0), two(asker, 3);
        until_left const   going(over);
        for (unsigned i = 0; i < 10; ++i) {
            batch_scope b(r, {.store = store});
            for (unsigned k = 0; k < 2; ++k) shown.show(2 * i + k, b.make<T>());
        }
    }
    CHECK(store->usage().blocks == 0);
    CHECK(store.use_count() == 1);
}

TEST_CASE("a stale handle is freed while its store's memory goes and comes back") {
    auto const store = std::make_shared<tenure::heap_store>();
    {
        registry           r;
        board<handle<int>> shown;
        std::atomic<bool>  over = false;
        std::jthread const one([&] {
            while (!over)
                if (auto const done = r.try_free(shown.at(0)); !done) CHECK(is_gone(done.error()));
        });
        until_left const going(over);
        for (unsigned i = 0; i < 20; ++i) {
            batch_scope b(r, {.store = store});
            shown.show(0, b.make<int>(1));
        }
    }
    CHECK(store->usage().blocks == 0);
}

TEST_CASE("stale handles are kept while their store's memory goes") {
    auto const store = std::make_shared<tenure::heap_store>();
    {
        registry           r;
        board<handle<int>> shown;
        std::atomic<bool>  over   = false;
        auto const         keeper = [&](unsigned first) {
            batch_scope outer(r), mine(r);
            mine.keep(mine.make<int>(1));  // the first keep of a batch takes the long way
            for (unsigned i = first; !over; ++i) {
                if (auto const done = mine.try_keep(shown.at(i)); !done) CHECK(is_gone(done.error()));
                try {
                    mine.keep(shown.at(i));  // which takes a shorter way
                } catch (tenure::error const& e) {
                    CHECK(is_gone(e.code()));
                }
            }
        };
        std::jthread const one(keeper, 0), two(keeper, 3);
        until_left const   going(over);
        for (unsigned i = 0; i < 15; ++i) {
            batch_scope b(r, {.store = store});
            for (unsigned k = 0; k < 2; ++k) shown.show(2 * i + k, b.make<int>(1));
        }
    }
    CHECK(store->usage().blocks == 0);
    CHECK(store.use_count() == 1);
}

// The unit lives on for what was kept, so each question goes to it. The object asked for lies at the unit's end, of
// which the reclaimer takes note last. That looks for work each millisecond.
TEST_CASE("a handle is asked while a thread of the registry frees what surrounds a kept object") {
    registry    r;
    batch_scope cache(r);
    for (int i = 0; i < 4; ++i) {
        handle<int>         kept;
        handle<std::string> dead;
        {
            batch_scope b{tenure::below(cache), {.reclaim = tenure::reclamation::background}};
            kept = b.keep(b.make<int>(1));
            for (int k = 0; k < 5; ++k) (void)b.make<std::array<char, 12'000>>();
            dead = b.make<std::string>(64, 'x');
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        for (int k = 0; k < 12; ++k) CHECK(!dead.alive());
        CHECK(kept.alive());
    }
}

TEST_CASE("large pieces of a resource go back while their batch ends, and after") {
    auto const store = std::make_shared<tenure::heap_store>();
    {
        registry                   r;
        std::pmr::memory_resource* from = nullptr;
        std::array<void*, 12>      pieces{};
        enum class turn : unsigned char { none, late, done, over };
        std::atomic<turn>  whose = turn::none;
        std::jthread const late([&] {
            for (;; std::this_thread::yield()) {
                turn const now = whose;
                if (now == turn::over) return;
                if (now != turn::late) continue;
                for (void* const p : pieces) from->deallocate(p, 200'000, 8);
                whose = turn::done;
            }
        });
        for (unsigned i = 0; i < 12; ++i) {
            batch_scope b(r, {.store = store});
            from = b.resource();
            for (void*& p : pieces) p = from->allocate(200'000, 8);
            whose = turn::late;
            b.end();
            batch_scope(r, {.store = store}).make<int>(1);
            while (whose != turn::done) std::this_thread::yield();
        }
        whose = turn::over;
    }
    CHECK(store->usage().blocks == 0);
}

TEST_CASE("scopes with a checkpoint close while others hold their batches") {
    registry           r;
    board<batch_id>    shown;
    std::atomic<bool>  over = false;
    std::jthread const holder([&] {
        while (!over) try {
                r.commit(shown.at(0));  // refused, but holds the batch meanwhile
            } catch (tenure::error const& e) {
                CHECK((is_gone(e.code()) || e.code() == errc::no_such_batch || e.code() == errc::batch_in_use ||
                       e.code() == errc::no_checkpoint));
            }
    });
    until_left const   going(over);
    for (unsigned i = 0; i < 60; ++i) {
        bool const  manual = i % 2;
        batch_scope b(r, {.cleanup = manual ? tenure::cleanup::manual : tenure::cleanup::on_exit});
        b.make<int>(1);
        r.checkpoint(b.id());
        shown.show(0, b.id());
        b.end();
        if (manual) r.destroy_batch(b.id());
    }
}

TEST_CASE("what has memory of its batch's resource is freed by others while the batch makes more") {
    registry            r;
    board<handle<text>> shown;
    std::atomic<bool>   over = false;
    std::jthread const  other([&] {
        while (!over)
            if (auto const done = r.try_free(shown.at(0)); !done) CHECK(is_gone(done.error()));
    });
    until_left const going(over);
    for (unsigned i = 0; i < 120; ++i) {
        batch_scope              b(r);
        std::vector<handle<int>> made;
        for (int k = 0; k < 6; ++k) {
            auto const h = b.make<text>(b.resource());
            shown.show(0, h);
            made.push_back(b.make<int>(k));
        }
        for (int k = 0; k < 6; ++k) CHECK(*made[static_cast<unsigned>(k)] == k);
    }
}

TEST_CASE("handles are asked while their registry closes") {
    board<handle<std::string>> shown;
    auto const                 store = std::make_shared<tenure::heap_store>();
    registry                   r;
    std::atomic<bool>          over  = false;
    auto const                 asker = [&](unsigned first) {
        batch_scope outer(r), mine(r);
        for (unsigned i = first; !over; ++i) {
            auto const h = shown.at(i);
            if (i % 2) ask(r, h, i / 2, mine.id());
            else if (auto const done = mine.try_keep(h); !done) CHECK(is_gone(done.error()));
        }
    };
    {
        std::jthread const one(asker, 0), two(asker, 3);
        until_left const   going(over);
        for (unsigned i = 0; i < 12; ++i) {
            registry    other(i % 2 ? tenure::registry_options{} : tenure::registry_options{.store = store});
            batch_scope b(other);
            for (unsigned k = 0; k < 3; ++k) shown.show(3 * i + k, b.make<std::string>());
        }
    }
    CHECK(store->usage().blocks == 0);
}

TEST_CASE("what other registries have is asked to be freed while they close") {
    registry           r;
    board<handle<int>> shown;
    std::atomic<bool>  over = false;
    std::jthread const stranger([&] {
        while (!over) {
            auto const done = r.try_free(shown.at(0));
            CHECK(is_gone(done.error()));
        }
    });
    until_left const   going(over);
    for (unsigned i = 0; i < 40; ++i) {
        registry    other;
        batch_scope b(other);
        shown.show(0, b.make<int>(1));
        CHECK(b.make<int>(2).alive());
    }
}

TEST_CASE("what is shared is freed, passed on and shared anew by all its owners") {
    registry r;
    {
        board<handle<int>> shown;
        auto const         sharer = [&](unsigned first) {
            batch_scope outer(r), mine(r);
            for (unsigned i = first; i < first + 60; ++i) {
                batch_scope inner(r);
                auto const  own = inner.make<int>(7);
                if (i % 3 == 0) shown.show(i, own);
                auto const h        = shown.at(i + 1);
                auto const not_gone = [&](auto const& done) { return done || is_gone(done.error()); };
                CHECK(not_gone(r.try_share(h, i % 2 ? mine.id() : inner.id())));
                switch (i % 3) {
                case 0: CHECK(not_gone(r.try_free(h))); break;
                case 1: CHECK(not_gone(inner.try_keep(h))); break;
                default: CHECK(not_gone(mine.try_free(h))); break;
                }
            }
        };
        std::jthread const one(sharer, 0), two(sharer, 2), three(sharer, 4);
    }
    for (auto const& b : r.snapshot().batches) CHECK(b.id == r.root());
}

/// What is shared next has the record of the owner that was just given up, and the stranger, who is refused for the
/// sake of a pin, must not take one for the other.
TEST_CASE("a batch keeps what is its parent's, while others give it that") {
    registry                          r;
    batch_scope                       above{r, {.limits = {.soft = 1'000'000}}};
    std::array<handle<text>, 3> const all{above.make<text>(std::pmr::new_delete_resource()),
                                          above.make<text>(std::pmr::new_delete_resource()),
                                          above.make<text>(std::pmr::new_delete_resource())};
    r.share(all[2], r.root());
    std::atomic<std::uint64_t> below = 0;
    std::atomic<bool>          over  = false;
    std::jthread const         giver([&] {
        for (std::size_t i = 0; !over; ++i) try {
                r.transfer_ownership(all[i % 3], batch_id{below});
            } catch (tenure::error const& e) {
                CHECK((is_gone(e.code()) || e.code() == errc::no_such_batch));
            }
    });
    until_left const           going(over);
    for (unsigned i = 0; i < 60; ++i) {
        batch_scope b;
        below = b.id().value;
        if (auto const kept = b.try_keep(all); !kept)
            CHECK((is_gone(kept.error()) || kept.error() == errc::not_owner));
        below = 0;
        for (auto const h : all)  // what is here goes at the end
            if (auto const kept = b.try_keep(h); !kept)
                CHECK((is_gone(kept.error()) || kept.error() == errc::not_owner));
    }
    CHECK(books_error(r.snapshot()) == "");
}

TEST_CASE("a stranger would free what is shared, given to one owner and shared anew") {
    registry r;
    {
        batch_scope        above(r), mine(r);
        auto const         h    = mine.make<int>(7);
        auto const         pin  = tenure::pin(h);
        std::atomic<bool>  over = false;
        std::jthread const stranger([&] {
            while (!over) CHECK(r.try_free(h).error() == errc::object_pinned);
        });
        until_left const   going(over);
        for (unsigned i = 0; i < 30; ++i) {
            CHECK(r.try_share(h, above.id()).has_value());
            CHECK(r.try_transfer_ownership(h, mine.id()).has_value());
            CHECK(h.owner() == mine.id());
        }
    }
    for (auto const& b : r.snapshot().batches) CHECK(b.id == r.root());
}

TEST_CASE("guards close while the batch above them is ended, and asks them to stop") {
    registry r;
    {
        std::atomic<std::uint64_t> above{0};
        std::atomic<bool>          over = false;
        std::jthread const         below([&] {
            while (!over) {
                batch_id const id{above};
                try {
                    auto const  in = r.enter(id);
                    batch_scope b;
                    auto const  token = b.stop_token();
                    for (int i = 0; i < 3 && !token.stop_requested(); ++i) b.make<std::string>(30, 'x');
                } catch (tenure::error const& e) {
                    CHECK((is_gone(e.code()) || e.code() == errc::no_such_batch));
                }
            }
        });
        until_left const           going(over);
        for (unsigned i = 0; i < 200; ++i) {
            batch_id const id = r.new_batch();
            above             = id.value;
            std::this_thread::yield();
            r.end_batch(id);
        }
    }
    for (auto const& b : r.snapshot().batches) CHECK(b.id == r.root());
}

TEST_CASE("a batch with manual cleanup is ended by one, destroyed by another, and its record is a third one's") {
    registry r;
    {
        std::atomic<std::uint64_t> manual = r.new_batch({.cleanup = tenure::cleanup::manual}).value;
        std::atomic<bool>          over   = false;
        std::jthread const         ender([&] {
            while (!over) r.end_batch(batch_id{manual});
        });
        std::jthread const         destroyer([&] {
            while (!over) {
                r.destroy_batch(batch_id{manual});
                batch_scope const outer(r), inner(r);  // with the records that it has just got back
            }
        });
        until_left const           going(over);
        for (unsigned i = 0; i < 40; ++i) {
            batch_scope outer(r);
            r.destroy_batch(batch_id{manual});
            manual = r.new_batch({.cleanup = tenure::cleanup::manual}, outer.id()).value;
            batch_scope inner(r);
            CHECK(inner.make<int>(1).owner() == inner.id());
        }
        r.destroy_batch(batch_id{manual});
    }
    for (auto const& b : r.snapshot().batches) CHECK(b.id == r.root());
}

TEST_CASE("batches are opened below one that ends, and goes with its store's memory") {
    auto const store = std::make_shared<tenure::heap_store>();
    registry   r;
    {
        std::atomic<std::uint64_t> above = r.new_batch({.store = store}).value;
        std::atomic<bool>          over  = false;
        std::jthread const         below([&] {
            while (!over) {
                batch_id const id{above};
                try {
                    batch_id const mine = r.new_batch({.name = "below"}, id);
                    CHECK(mine);
                    auto const in = r.enter(mine);
                    auto const h  = tenure::make<int>(1);
                    CHECK(h.owner() == mine);
                } catch (tenure::error const& e) {
                    CHECK(is_gone(e.code()));
                }
            }
        });
        until_left const           going(over);
        for (unsigned i = 0; i < 40; ++i) {
            r.end_batch(batch_id{above});
            above = r.new_batch({.store = store}).value;
        }
        r.end_batch(batch_id{above});
    }
    for (auto const& b : r.snapshot().batches) CHECK(b.id == r.root());
    CHECK(store->usage().blocks == 0);
}

TEST_CASE("scopes are opened inside of a batch that ends, and are told") {
    registry                   r;
    std::atomic<std::uint64_t> above = r.new_batch().value, ended = 0;
    std::atomic<bool>          over = false;
    {
        std::jthread const inside([&] {
            while (!over) {
                batch_id const id{above};
                try {
                    auto const  in = r.enter(id);
                    batch_scope below;
                    bool const  told = ended == id.value;  // end_batch() has returned
                    CHECK(!(told && below.try_make<int>(1)));
                } catch (tenure::error const& e) {
                    CHECK(is_gone(e.code()));
                }
            }
        });
        until_left const   going(over);
        for (unsigned i = 0; i < 40; ++i) {
            batch_id const id{above};
            std::this_thread::yield();
            r.end_batch(id);
            ended = id.value;
            above = r.new_batch().value;
        }
        r.end_batch(batch_id{above});
    }
    for (auto const& b : r.snapshot().batches) CHECK(b.id == r.root());
}

TEST_CASE("scopes are opened below one's own that another thread ends or cancels, and are told") {
    for (bool const cancelled : {false, true}) {
        registry                    r;
        errc const                  why = cancelled ? errc::cancelled : errc::batch_ended;
        ender                       other(r, cancelled);
        std::atomic<std::uint64_t>& above = other.above;
        std::atomic<std::uint64_t>& ended = other.ended;
        for (unsigned i = 0; i < 40; ++i) {
            batch_scope b(r);
            above = b.id().value;
            for (bool told = false; !told;) {
                try {
                    batch_scope below;
                    told            = ended == b.id().value;  // the call has returned
                    auto const made = below.try_make<int>(1);
                    CHECK(!(told && made));
                    if (!made) CHECK(made.error() == why);
                } catch (tenure::error const& e) {
                    CHECK(e.code() == why);
                    told = true;
                }
            }
            above = 0;
        }
    }
}

TEST_CASE("scopes are opened in older records below a scope of one's own, while another thread ends or cancels") {
    for (bool const cancelled : {false, true}) {
        registry                    r;
        errc const                  why = cancelled ? errc::cancelled : errc::batch_ended;
        ender                       other(r, cancelled);
        std::atomic<std::uint64_t>& above = other.above;
        std::atomic<std::uint64_t>& ended = other.ended;
        for (unsigned i = 0; i < 40; ++i) {
            batch_scope    top(r);
            batch_id const older = r.new_batch();  // whose record the pass looks at before that of `between`
            try {
                batch_scope between;
                r.end_batch(older);
                above = top.id().value;
                batch_scope below;
                while (ended != top.id().value) std::this_thread::yield();
                auto const made = below.try_make<int>(1);
                CHECK(made.has_error());
                if (!made) CHECK(made.error() == why);
            } catch (tenure::error const& e) {
                CHECK(e.code() == why);
                while (ended != top.id().value) std::this_thread::yield();
            }
            above = 0;
        }
    }
}

TEST_CASE("scopes are nested in each other, with batches without a guard below, while what is above them goes") {
    for (bool const cancelled : {false, true}) {
        registry                    r;
        ender                       other(r, cancelled);
        std::atomic<std::uint64_t>& above = other.above;
        std::atomic<std::uint64_t>& ended = other.ended;
        for (unsigned i = 0; i < 30; ++i) {
            batch_id const        top = r.new_batch();
            std::vector<batch_id> opened;  // all that was ever opened below
            {
                std::vector<std::unique_ptr<batch_scope>> nested;
                r.set_current_batch(top);
                above = top.value;
                for (unsigned k = 0; ended != top.value; ++k) try {
                        if (nested.size() > 3) nested.erase(nested.begin() + 1 + k % 3);
                        if (nested.empty() || k % 4 == 0) nested.push_back(std::make_unique<batch_scope>(r));
                        else nested.push_back(std::make_unique<batch_scope>(tenure::below(*nested.front())));
                        opened.push_back(nested.back()->id());
                        opened.push_back(r.new_batch({}, nested.back()->id()));
                    } catch (tenure::error const& e) {
                        CHECK((e.code() == errc::cancelled || is_gone(e.code())));
                        std::this_thread::yield();
                    }
                for (batch_id const id : opened) CHECK(r.status(id) != tenure::batch_status::active);
                nested.clear();
                r.set_current_batch(registry::global().root());
            }
            above = 0;
        }
        for (auto const& b : r.snapshot().batches) CHECK(b.id == r.root());
    }
}

TEST_CASE("nested scopes with manual cleanup close, and go below the root, while what is above them goes") {
    for (bool const cancelled : {false, true}) {
        registry r;
        ender    other(r, cancelled);
        for (unsigned i = 0; i < 30; ++i) {
            batch_id const top = r.new_batch();
            r.set_current_batch(top);
            other.above = top.value;
            while (other.ended != top.value) try {
                    batch_scope const outer(r);
                    for (int k = 0; k < 8; ++k) batch_scope const inner(r, {.cleanup = tenure::cleanup::manual});
                } catch (tenure::error const& e) {
                    CHECK((e.code() == errc::cancelled || is_gone(e.code())));
                    std::this_thread::yield();
                }
            r.set_current_batch(registry::global().root());
            other.above = 0;
            for (auto const& b : r.snapshot().batches)
                if (b.id != r.root()) r.destroy_batch(b.id);
        }
        CHECK(r.snapshot().batches.size() == 1);
    }
}

TEST_CASE("a scope is cleared while another thread ends or cancels what is above it, and is told") {
    for (bool const cancels : {false, true}) {
        registry r;
        {
            ender other(r, cancels);
            for (unsigned i = 0; i < 20; ++i) {
                batch_scope above(r);
                batch_scope own(r);
                other.above = above.id().value;
                while (auto const made = own.try_make<int>(1)) {
                    if (auto const done = own.try_clear(); !done) CHECK(is_gone_or_stopped(done.error()));
                    else CHECK(!made->alive());
                }
                while (other.ended != above.id().value) std::this_thread::yield();
                CHECK(own.status() != tenure::batch_status::active);
                other.above = 0;
            }
        }
        CHECK(r.snapshot().batches.size() == 1);
        CHECK(books_error(r.snapshot()) == "");
    }
}

TEST_CASE("a guest keeps from a nested scope while what is above that takes checkpoints and goes back") {
    registry         r;
    std::atomic<int> ended{0};
    int              made = 0;
    {
        batch_scope       above(r);
        batch_scope       own(r);
        std::atomic<bool> over{false};
        std::jthread      guest([&] {
            until_left const left(over);
            for (int i = 0; i < 20; ++i) {
                auto const in = r.enter(own.id());
                auto const a = tenure::make<counting>(ended), b = tenure::make<counting>(ended);
                made += 2;
                try {
                    if (i % 2) tenure::keep(a, b);
                    else tenure::keep(a);
                } catch (tenure::error const& e) {
                    CHECK(is_gone_or_stopped(e.code()));
                }
            }
        });
        while (!over) try {
                above.checkpoint();
                above.rollback();
            } catch (tenure::error const& e) {
                CHECK((e.code() == errc::batch_in_use || e.code() == errc::not_restorable ||
                       e.code() == errc::no_checkpoint));
            }
        guest.join();
        CHECK(books_error(r.snapshot()) == "");
    }
    CHECK(ended == made);
    CHECK(books_error(r.snapshot()) == "");
}

TEST_CASE("two threads end and cancel batches above each other, and what is below goes once") {
    registry r;
    for (unsigned i = 0; i < 40; ++i) {
        std::vector<batch_id> chain{r.new_batch()};
        std::atomic<int>      destroyed = 0;
        int                   made      = 0;
        while (chain.size() < 6) {
            chain.push_back(r.new_batch({}, chain.back()));
            for (batch_id const id : {chain.back(), r.new_batch({}, chain.back())}) {
                auto const in = r.enter(id);
                tenure::make<counting>(destroyed);
                ++made;
            }
        }
        {
            std::jthread const other([&] {
                for (batch_id const id : chain) i % 2 ? r.end_batch(id) : r.cancel(id);
            });
            for (auto at = chain.rbegin(); at != chain.rend(); ++at) r.end_batch(*at);
        }
        CHECK(destroyed == made);
        CHECK(r.snapshot().batches.size() == 1);
    }
}

TEST_CASE("batches without a guard are opened below what is detached, while what is above that is cancelled") {
    registry                   r;
    std::atomic<std::uint64_t> detached = 0;
    std::atomic<bool>          over     = false;
    {
        std::jthread const opener([&] {
            while (!over) {
                batch_id const up{detached};
                if (!up) continue;
                try {
                    batch_id const id = r.new_batch({}, up);
                    batch_scope    other(r);  // perhaps with the record that the new one had
                    auto const     b = other.make_buffer<int>(4);
                    b.write(0, std::array{1, 2, 3, 4});  // it was not cancelled
                    r.end_batch(id);
                } catch (tenure::error const& e) {
                    CHECK((e.code() == errc::cancelled || is_gone(e.code())));
                }
            }
        });
        until_left const   going(over);
        for (unsigned i = 0; i < 30; ++i) {
            batch_id const top = r.new_batch();
            {
                auto const  in = r.enter(top);
                batch_scope d;
                detached = d.id().value;
                d.detach();
            }
            std::this_thread::yield();
            r.cancel(top);
            batch_scope const mine(r);  // in the record of what was cancelled
            r.end_batch(batch_id{detached.exchange(0)});
        }
    }
    for (auto const& b : r.snapshot().batches) CHECK(b.id == r.root());
}

TEST_CASE("what a manual batch holds is freed while its guard closes, and its limits are paid back once") {
    registry r;
    for (unsigned i = 0; i < 30; ++i) {
        batch_scope                      limited(r, {.limits = {.hard = 1 << 20}});
        auto                             inner = std::make_unique<batch_scope>(tenure::below(limited),
                                                                               tenure::batch_options{.cleanup = tenure::cleanup::manual});
        batch_id const                   id    = inner->id();
        std::vector<handle<std::string>> made;
        for (unsigned k = 0; k < 20; ++k) made.push_back(inner->make<std::string>(50u, 'x'));
        {
            std::atomic<bool>  at = false;
            std::jthread const freer([&] {
                for (auto h : made) {
                    at = true;
                    r.free(h);
                }
            });
            while (!at) std::this_thread::yield();
            inner.reset();
        }
        r.destroy_batch(id);
        CHECK(limited.try_make<char[]>(900'000).has_value());
        CHECK(limited.try_make<char[]>(900'000).has_error());
    }
}

TEST_CASE("stale handles are asked while others make objects in their place") {
    using piece       = std::array<char, 4000>;                  // some sixteen of them in 64 KiB
    auto const  store = std::make_shared<tenure::heap_store>();  // of which no thread keeps memory in stock
    registry    r;
    batch_scope cache(r, {.store = store});
    for (unsigned i = 0; i < 10; ++i) {
        handle<piece> kept[3], stale[3];
        {
            batch_scope request{tenure::below(cache)};
            for (int k = 0; k < 3; ++k) {
                kept[k] = request.keep(request.make<piece>());
                request.make<piece>();
                stale[k] = request.make<piece>();
            }
        }
        std::atomic<bool>  over = false;
        std::jthread const asker([&] {
            do
                for (int k = 0; k < 3; ++k) {
                    CHECK(!stale[k].alive());
                    CHECK(kept[k].alive());
                }
            while (!over);
        });
        until_left const   going(over);
        for (unsigned n = 0; n < 2; ++n) {
            batch_scope request{tenure::below(cache)};
            for (unsigned k = 0; k < 8; ++k) {
                auto const made = request.make<piece>();
                request.free(request.make<std::array<char, 100>>());  // so that the unit notes what else is there
                CHECK(made.alive());
            }
        }
    }
}

TEST_CASE("others take a batch's half-empty memory while it takes checkpoints, and goes to the page file") {
    registry            r;
    tenure::batch_owner cache(r, {});
    for (unsigned i = 0; i < 10; ++i) {
        handle<long> kept;
        {
            batch_scope request(r);
            kept = request.make<long>(7);
            r.transfer_ownership(kept, cache.id());
        }
        std::jthread const other([&] {
            batch_scope const in_stock(r);
            tenure::make<long>(0);
            for (unsigned n = 0; n < 3; ++n) {
                batch_scope  request(r);
                handle<long> some[300];
                for (long k = 0; k < 300; ++k) some[k] = request.make<long>(k);
                for (long k = 0; k < 300; ++k) CHECK(*some[k] == k);
            }
        });
        if (i % 2) {
            r.checkpoint(cache.id());
            *kept = 8;
            std::this_thread::yield();
            r.rollback(cache.id());
        } else {
            r.page_out(cache.id());
            std::this_thread::yield();
            r.page_in(cache.id());
        }
        CHECK(*kept == 7);
    }
}

TEST_CASE("others take what a batch that was in the page file leaves, while it ends") {
    registry r;
    for (unsigned i = 0; i < 10; ++i) {
        batch_id const cache = r.new_batch();
        handle<long>   kept[3];
        for (auto& h : kept) {
            batch_scope request(r);
            h = request.make<long>(7);
            r.transfer_ownership(h, cache);
            request.make<std::array<char, 50'000>>();  // the next one is elsewhere
        }
        r.page_out(cache);
        { auto const in = r.enter(cache); }  // it comes in page by page, and is in the file still
        std::jthread const other([&] {
            batch_scope const in_stock(r);
            tenure::make<long>(0);
            batch_scope  request(r);
            handle<long> some[300];
            for (long k = 0; k < 300; ++k) some[k] = request.make<long>(k);
            std::this_thread::yield();
            for (long k = 0; k < 300; ++k) CHECK(*some[k] == k);
        });
        r.end_batch(cache);
    }
}

TEST_CASE("nothing is made in a batch once it says that it was cancelled") {
    registry r;
    for (unsigned i = 0; i < 30; ++i) {
        batch_scope        b(r);
        std::jthread const canceller([&r, id = b.id()] { r.cancel(id); });
        while (b.status() == tenure::batch_status::active) std::this_thread::yield();
        CHECK(b.try_make<int>(1).has_error());
    }
}

TEST_CASE("registries close while others open batches with the records that they had") {
    auto const open_and_close = [] {
        for (unsigned i = 0; i < 4; ++i) {
            registry          r;
            batch_scope       b(r);
            auto const        text = b.make<std::string>(30, 'x');
            batch_scope const below(r);
            CHECK(text.owner() == b.id());
            CHECK(*text == std::string(30, 'x'));
        }
    };
    std::jthread const one(open_and_close), two(open_and_close);
    open_and_close();
}

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Random programs on several threads in one registry. No model can say what comes of them, but much must hold in
// any case: what nobody else knows of stays alive and intact; each call succeeds or says why not, in one of few
// ways; every object ends exactly once; the books are right when all is over. Made for the thread and the address
// sanitizer. TENURE_STEPS: how many steps, over all threads; TENURE_SEED: which (the order of threads is nobody's
// to repeat).

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/json.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "random/dice.hpp"
#include "random/kinds.hpp"
#include "stores/lab_store.hpp"

namespace {

using tenure::batch_id;
using tenure::batch_scope;
using tenure::batch_status;
using tenure::errc;
using tenure::registry;

struct thing {
    any_handle    handle;
    std::uint64_t serial = 0;
    bool          shared = false;  ///< others may free it at any time, so nobody may read it
};

/// Where threads leave what others may take.
template <class T, std::size_t Size>
class market {
public:
    /// Returns what lay there before.
    std::optional<T> put(T x, std::uint64_t where) {
        std::scoped_lock const guard(mutex_);
        return std::exchange(places_[where % Size], std::move(x));
    }
    std::optional<T> take(std::uint64_t where) {
        std::scoped_lock const guard(mutex_);
        return std::exchange(places_[where % Size], std::nullopt);
    }
    std::optional<T> copy(std::uint64_t where) {
        std::scoped_lock const guard(mutex_);
        return places_[where % Size];
    }

private:
    std::mutex                         mutex_;
    std::array<std::optional<T>, Size> places_;
};

/// What all threads share.
class town final : public specimens::watcher {
public:
    explicit town(std::size_t most) : lives_(most) { specimens::watching = this; }
    ~town() {
        close();  // objects that were left behind speak to us until the last of them is gone
        specimens::watching = nullptr;
    }
    void close() { own_.reset(); }

private:
    std::unique_ptr<registry> own_ = std::make_unique<registry>();

public:
    registry& where = *own_;

    market<thing, 64>    things;   ///< whoever takes one is the only one to know it
    market<thing, 64>    rumours;  ///< known to several
    market<batch_id, 16> orphans;  ///< batches without a guard; whoever takes one ends it
    market<batch_id, 32> ids;      ///< of batches that others have open, or had

    /// A scope of some thread, for others to enter; its thread withdraws it before it closes.
    struct stand {
        std::mutex   mutex;
        batch_scope* scope = nullptr;
    };
    std::array<stand, 6> stands;

    std::uint64_t next_serial() {
        std::uint64_t const serial = serials_.fetch_add(1, std::memory_order_relaxed);
        return serial < lives_.size() ? serial : 0;
    }
    void begun(std::uint64_t serial) { lives_[serial].store(alive, std::memory_order_relaxed); }
    void refused(std::uint64_t serial) { lives_[serial].store(unused, std::memory_order_relaxed); }

    void fail(std::string why) noexcept {
        std::scoped_lock const guard(mutex_);
        if (trouble_.empty()) trouble_ = std::move(why);
        failed_.store(true, std::memory_order_relaxed);
    }
    bool        failed() const noexcept { return failed_.load(std::memory_order_relaxed); }
    std::string trouble() {
        std::scoped_lock const guard(mutex_);
        return trouble_;
    }
    std::size_t still_alive() const {
        std::size_t n = 0;
        for (auto const& l : lives_) n += l.load(std::memory_order_relaxed) == alive;
        return n;
    }

private:
    enum life : std::uint8_t { unused, alive, over };

    void ended(std::uint64_t serial) noexcept override {
        if (lives_[serial].exchange(over, std::memory_order_relaxed) != alive)
            fail("object " + std::to_string(serial) + " ended twice, or was never made");
    }
    void damaged(std::uint64_t serial, char const* how) noexcept override {
        fail("object " + std::to_string(serial) + " is damaged " + how);
    }
    void meddle(std::uint64_t serial) noexcept override {
        try {
            batch_scope inner(where);
            auto const  h = inner.make<specimens::plain<64>>(serial);
            if (!h->is_intact(serial)) fail("what a destructor made is not what it was");
        } catch (tenure::error const& e) {
            if (e.code() != errc::batch_ended) fail(e.what());
        }
    }

    std::vector<std::atomic<std::uint8_t>> lives_;
    std::atomic<std::uint64_t>             serials_{1};
    std::mutex                             mutex_;
    std::string                            trouble_;
    std::atomic<bool>                      failed_{false};
};

/// One thread and what it does.
class citizen {
public:
    citizen(town& t, std::uint64_t seed) : town_(t), roll_(seed) {}

    void live(std::uint64_t steps) {
        try {
            while (steps-- > 0 && !town_.failed()) step();
            while (!lanes_.empty()) lanes_.pop_back();
            while (!scopes_.empty()) close();
        } catch (std::exception const& e) {
            town_.fail(e.what());
        }
    }

private:
    struct open_scope {
        std::unique_ptr<batch_scope>     guard;
        std::unique_ptr<tenure::entered> inside;  ///< or not opened, but entered
        batch_id                         id;
        std::vector<thing>               mine{};           ///< known to nobody else
        bool                             is_ours = false;  ///< its parent is the scope before it
    };

    /// Empty: success, or one of the refusals that are `possible`. Whatever else is thrown ends the test.
    template <class F>
    static bool done(F call, std::initializer_list<errc> possible) {
        try {
            call();
            return true;
        } catch (tenure::error const& e) {
            for (errc const c : possible)
                if (e.code() == c) return false;
            throw;
        }
    }

    void step() {
        switch (roll_.below(21)) {
        case 0:
        case 1: open(); break;
        case 2:
        case 3:
            if (!scopes_.empty()) close();
            break;
        case 4: open_elsewhere(); break;
        case 5: offer_scope(); break;
        case 6: offer_things(); break;
        case 7:
        case 8: take_things(); break;
        case 9: spread_rumours(); break;
        case 10: act_on_rumours(); break;
        case 11: keep(); break;
        case 12: use_lane(); break;
        case 13: orphan(); break;
        case 14: end_some_batch(); break;
        case 15: look(); break;
        case 16: clear(); break;
        default: make(); break;
        }
    }

    void open() {
        if (scopes_.size() > 6) return;
        bool const ours = !scopes_.empty() && scopes_.back().guard && tenure::current_batch() == scopes_.back().id;
        std::unique_ptr<batch_scope> s;
        tenure::batch_options        options{.name = roll_.one_in(2) ? "scope" : ""};
        if (roll_.one_in(8)) options.store = kinds::stores[1 + roll_.below(2)];
        if (!done([&] { s = std::make_unique<batch_scope>(town_.where, options); }, {errc::batch_ended})) return;
        if (roll_.one_in(8)) town_.ids.put(s->id(), roll_());
        batch_id const id = s->id();
        scopes_.push_back({std::move(s), nullptr, id, {}, ours});
    }

    /// Below another thread's scope, or inside of it.
    void open_elsewhere() {
        if (scopes_.size() > 6) return;
        auto&                  stand = town_.stands[roll_.below(town_.stands.size())];
        open_scope             s;
        std::scoped_lock const guard(stand.mutex);
        if (!stand.scope) return;
        bool const entered = done(
            [&] {
                if (roll_.one_in(3)) s.guard = std::make_unique<batch_scope>(tenure::below(*stand.scope));
                else if (roll_.one_in(2)) lanes_.push_back(std::make_unique<tenure::lane>(stand.scope->lane()));
                else s.inside.reset(new tenure::entered(stand.scope->enter()));
            },
            {errc::batch_ended});
        if (!entered || !(s.guard || s.inside)) return;
        s.id = s.guard ? s.guard->id() : stand.scope->id();
        scopes_.push_back(std::move(s));
    }

    void offer_scope() {
        if (scopes_.empty() || !scopes_.back().guard) return;
        auto&                  stand = town_.stands[roll_.below(town_.stands.size())];
        std::scoped_lock const guard(stand.mutex);
        if (!stand.scope) stand.scope = scopes_.back().guard.get();
    }

    void withdraw(batch_scope const* s) {
        for (auto& stand : town_.stands) {
            std::scoped_lock const guard(stand.mutex);
            if (stand.scope == s) stand.scope = nullptr;
        }
    }

    /// Until its guard goes a batch has all that it had, whoever asked it to stop; then nothing.
    void close() {
        open_scope s = std::move(scopes_.back());
        scopes_.pop_back();
        for (thing const& t : s.mine)
            if (!reads_well(t.handle, t.serial)) town_.fail("an object is not what it was");
        if (s.inside) return;
        withdraw(s.guard.get());
        if (roll_.one_in(4)) s.guard->end();
        s.guard.reset();
    }

    /// All at once or not at all, whoever else is about.
    void clear() {
        if (scopes_.empty() || !scopes_.back().guard) return;
        open_scope& s       = scopes_.back();
        bool const  cleared = done([&] { s.guard->clear(); }, {errc::batch_ended, errc::batch_in_use});
        for (thing const& t : s.mine)
            if (is_alive(t.handle) == cleared) town_.fail("what was to be cleared was cleared in part");
        if (cleared) s.mine.clear();
    }

    // ---- objects ----

    template <class Place>
    void make_in(Place& place, std::vector<thing>* keeper, std::size_t n) {
        auto const& kind = kinds::pick<Place>(static_cast<std::uint32_t>(roll_()));
        for (std::size_t i = 0; i < n; ++i) {
            thing t{{}, town_.next_serial()};
            if (t.serial == 0) return;
            if (kind.has_end) town_.begun(t.serial);
            auto const amount = static_cast<std::uint32_t>(roll_());
            if (!done([&] { t.handle = kind.make(place, t.serial, amount); }, {errc::batch_ended})) {
                town_.refused(t.serial);
                return;
            }
            if (keeper && !kind.bound) keeper->push_back(t);
        }
    }

    void make() {
        std::size_t const n = roll_.one_in(8) ? roll_.below(200) : 1 + roll_.below(4);
        if (scopes_.empty()) return;
        open_scope& s = scopes_.back();
        if (s.guard && roll_.one_in(2)) return make_in(*s.guard, &s.mine, n);
        if (tenure::current_batch() != s.id) return;  // it is over, and another is current again
        kinds::current_batch current;
        make_in(current, s.guard ? &s.mine : nullptr,
                n);  // where we are a guest we do not know how long things live
    }

    void use_lane() {
        if (lanes_.empty()) return;
        std::size_t const  i = roll_.below(lanes_.size());
        std::vector<thing> made;
        make_in(*lanes_[i], &made, 1 + roll_.below(30));
        for (thing& t : made) {
            if (!reads_well(t.handle, t.serial)) town_.fail("an object made through a lane is not what it was");
            if (roll_.one_in(3)) town_.things.put(std::move(t), roll_());
        }
        if (roll_.one_in(3)) lanes_.erase(lanes_.begin() + static_cast<std::ptrdiff_t>(i));
    }

    void offer_things() {
        if (scopes_.empty() || scopes_.back().mine.empty()) return;
        auto& mine = scopes_.back().mine;
        for (std::size_t n = roll_.below(8); n > 0 && !mine.empty(); --n) {
            std::size_t const i = roll_.below(mine.size());
            town_.things.put(std::move(mine[i]), roll_());
            mine[i] = mine.back();
            mine.pop_back();
        }
    }

    /// Made by another thread, in a batch that may be over the next moment: it is freed, or becomes ours, and then
    /// it can be read.
    void take_things() {
        for (std::size_t n = roll_.below(8); n > 0; --n) {
            auto const t = town_.things.take(roll_());
            if (!t) continue;
            if (scopes_.empty() || !scopes_.back().guard || roll_.one_in(2)) {
                free(*t);
                continue;
            }
            open_scope& s = scopes_.back();
            if (transfer(*t, s.guard->id()) && !t->shared) s.mine.push_back(*t);
        }
    }

    bool transfer(thing const& t, batch_id to) {
        return std::visit(
            [&](auto const& h) {
                return done([&] { town_.where.transfer_ownership(h, to); },
                            {errc::stale_handle, errc::batch_ended, errc::wrong_thread});
            },
            t.handle);
    }
    bool free(thing const& t) {
        return std::visit(
            [&](auto const& h) {
                return done([&] { town_.where.free(h); }, {errc::stale_handle, errc::batch_ended});
            },
            t.handle);
    }

    void spread_rumours() {
        if (scopes_.empty() || scopes_.back().mine.empty()) return;
        thing t  = scopes_.back().mine.back();
        t.shared = true;
        scopes_.back().mine.pop_back();
        for (std::size_t i = 0; i < 3; ++i) town_.rumours.put(t, roll_());
    }

    /// Several threads may be at the same object: one gets what it wants, the others hear that they came too late.
    void act_on_rumours() {
        for (std::size_t n = roll_.below(6); n > 0; --n) {
            auto const t  = town_.rumours.copy(roll_());
            auto const id = town_.ids.copy(roll_());
            if (!t) continue;
            if (roll_.one_in(3) && is_alive(t->handle)) done([&] { owner_of(t->handle); }, {errc::stale_handle});
            else if (roll_.one_in(2)) free(*t);
            else if (id) transfer(*t, *id);
            else if (!scopes_.empty() && scopes_.back().guard) transfer(*t, scopes_.back().guard->id());
        }
    }

    void keep() {
        if (scopes_.size() < 2 || !scopes_.back().guard || scopes_.back().mine.empty()) return;
        open_scope& s     = scopes_.back();
        open_scope& below = scopes_[scopes_.size() - 2];
        thing       t     = s.mine.back();
        bool const  kept  = std::visit(
            [&](auto const& h) { return done([&] { s.guard->keep(h); }, {errc::batch_ended, errc::wrong_thread}); },
            t.handle);
        if (!kept) return;
        s.mine.pop_back();
        if (s.is_ours && below.guard) below.mine.push_back(std::move(t));
    }

    // ---- batches ----

    /// A batch is let go with all in it; who takes it ends it, or works in it first.
    void orphan() {
        if (auto const id = town_.orphans.take(roll_())) {
            registry& r = town_.where;
            if (roll_.one_in(2)) {
                batch_id before;
                if (done([&] { before = r.set_current_batch(*id); }, {errc::batch_ended})) {
                    kinds::current_batch current;
                    make_in(current, nullptr, roll_.below(40));
                    if (!done([&] { r.set_current_batch(before); }, {errc::batch_ended, errc::no_such_batch}))
                        registry::global().set_current_batch(registry::global().root());
                }
            }
            end_batch(*id);
        }
        if (scopes_.empty() || !scopes_.back().guard || !roll_.one_in(2)) return;
        open_scope s = std::move(scopes_.back());
        scopes_.pop_back();
        withdraw(s.guard.get());
        batch_id id;
        if (!done([&] { id = s.guard->detach(); }, {errc::batch_ended})) return;
        if (roll_.one_in(3)) town_.ids.put(id, roll_());
        if (auto const displaced = town_.orphans.put(id, roll_())) end_batch(*displaced);
    }

    /// Whoever has it open is asked to stop.
    void end_some_batch() {
        if (auto const id = town_.ids.copy(roll_()); id && roll_.one_in(2)) end_batch(*id);
    }

    void end_batch(batch_id id) {
        roll_.one_in(2) ? town_.where.end_batch(id) : town_.where.destroy_batch(id);
        town_.where.status(id);
        for (open_scope& s : scopes_)  // where that ended a scope of this thread itself
            if (s.guard && s.guard->status() != batch_status::active) s.mine.clear();
    }

    void look() {
        tenure::snapshot const s = town_.where.snapshot();
        if (s.to_text().empty() || s.to_json().empty()) town_.fail("a snapshot says nothing");
        town_.where.usage();
        if (roll_.one_in(16)) town_.where.trim();
    }

    town&                                      town_;
    dice                                       roll_;
    std::vector<open_scope>                    scopes_;
    std::vector<std::unique_ptr<tenure::lane>> lanes_;
};

void run_town(std::uint64_t seed, std::uint64_t steps) {
    kinds::stores[1] = make_lab<>("far");
    kinds::stores[2] = std::make_shared<tenure::heap_store>();
    town t(steps * 40);
    {
        accounting const          books(t.where);
        std::vector<std::jthread> threads;
        dice                      roll(seed);
        std::size_t const         n = 2 + roll.below(3);
        for (std::size_t i = 0; i < n; ++i)
            threads.emplace_back([&t, each = roll(), share = steps / n] { citizen(t, each).live(share); });
        threads.clear();
        for (tenure::batch_info const& b : t.where.snapshot().batches)
            if (b.id != t.where.root()) t.where.destroy_batch(b.id);
    }
    CHECK(t.trouble() == "");
    CHECK(stores_error(t.where, kinds::stores[1]) == "");
    t.close();
    CHECK(t.still_alive() == 0);
    for (std::size_t i = 1; i < kinds::stores.size(); ++i) CHECK(kinds::stores[i].usage().blocks == 0);
}

}  // namespace

TEST_CASE("threads that share batches, objects and lanes") {
    std::uint64_t const     seed   = from_environment("TENURE_SEED", 1);
    std::uint64_t const     steps  = from_environment("TENURE_STEPS", TENURE_SANITIZED ? 60'000 : 150'000);
    constexpr std::uint64_t a_town = 15'000;
    for (std::uint64_t done = 0; done < steps; done += a_town) {
        CAPTURE(seed);
        CAPTURE(done);
        run_town(dice::mix(seed ^ dice::mix(done)), std::min(a_town, steps - done));
    }
}

namespace {

/// Two threads do one thing each to the same objects at the same time; returns how often each had its way.
template <class H, class F, class G>
std::array<std::size_t, 2> at_once(std::vector<H> const& all, F first, G second) {
    std::array<std::size_t, 2> done{};
    auto const                 try_all = [&](auto const& call, std::size_t& count) {
        for (auto const h : all) {
            auto const r = call(h);
            if (r) ++count;
            else CHECK(r.error() == errc::stale_handle);
        }
    };
    std::jthread other([&] { try_all(second, done[1]); });
    try_all(first, done[0]);
    other.join();
    return done;
}

/// For buffers, in a template of types.
struct buffers {};

constexpr std::size_t many = TENURE_SANITIZED ? 2'000 : 20'000;

template <class T>
auto make_many(batch_scope& b) {
    if constexpr (std::is_same_v<T, buffers>) {
        std::vector<tenure::buffer<int>> all;
        for (std::size_t i = 0; i < many; ++i) all.push_back(b.make_buffer<int>(1, kinds::stores[i % 2]));
        return all;
    } else {
        std::vector<tenure::handle<T>> all;
        for (std::size_t i = 0; i < many; ++i) all.push_back(b.make<T>());
        return all;
    }
}

/// A store for them, which must be empty in the end.
struct far_store {
    far_store() { kinds::stores[1] = make_lab<>("far"); }
    ~far_store() { CHECK(kinds::stores[1].usage().blocks == 0); }
};

}  // namespace

/// What a scope can be asked, each on its own, so that none of them puts in order what the next one does.
using question = std::pair<char const*, void (*)(batch_scope&, tenure::handle<int>)>;
constexpr question questions[]{
    {"make", [](batch_scope& b, tenure::handle<int>) { b.make<int>(1); }},
    {"try_make", [](batch_scope& b, tenure::handle<int>) { CHECK(!b.try_make<std::string>("x")); }},
    {"make, large", [](batch_scope& b, tenure::handle<int>) { b.make<int[]>(100'000u); }},
    {"make, with a resource",
     [](batch_scope& b, tenure::handle<int>) { b.make<std::pmr::vector<int>>(std::pmr::get_default_resource()); }},
    {"make_buffer", [](batch_scope& b, tenure::handle<int>) { b.make_buffer<int>(4); }},
    {"adopt", [](batch_scope& b, tenure::handle<int>) { b.adopt(std::make_unique<int>(1)); }},
    {"resource", [](batch_scope& b, tenure::handle<int>) { static_cast<void>(b.resource()->allocate(8)); }},
    {"keep", [](batch_scope& b, tenure::handle<int> h) { b.keep(h); }},
    {"keep, a range", [](batch_scope& b, tenure::handle<int> h) { b.keep(std::vector{h, h}); }},
    {"free", [](batch_scope& b, tenure::handle<int> h) { b.free(h); }},
    {"share", [](batch_scope& b, tenure::handle<int> h) { b.share(h, tenure::current_batch()); }},
    {"borrow", [](batch_scope& b, tenure::handle<int> h) { b.borrow(h); }},
    {"a scope below", [](batch_scope& b, tenure::handle<int>) { batch_scope const c{tenure::below(b)}; }},
    {"one with options",
     [](batch_scope& b, tenure::handle<int>) {
         batch_scope const c{tenure::below(b), {.timeout = std::chrono::hours(1)}};
     }},
    {"lane", [](batch_scope& b, tenure::handle<int>) { static_cast<void>(b.lane()); }},
    {"enter", [](batch_scope& b, tenure::handle<int>) { auto const in = b.enter(); }},
    {"checkpoint", [](batch_scope& b, tenure::handle<int>) { b.checkpoint(); }},
    {"rollback", [](batch_scope& b, tenure::handle<int>) { b.rollback(); }},
    {"detach", [](batch_scope& b, tenure::handle<int>) { static_cast<void>(b.detach()); }},
    {"cancel", [](batch_scope& b, tenure::handle<int>) { b.cancel(); }},
    {"stop_token", [](batch_scope& b, tenure::handle<int>) { CHECK(b.stop_token().stop_requested()); }},
    {"usage", [](batch_scope& b, tenure::handle<int>) { CHECK(b.usage().objects <= 3); }},
    {"name", [](batch_scope& b, tenure::handle<int>) { CHECK(b.name() == "over"); }},
    {"status", [](batch_scope& b, tenure::handle<int>) { CHECK(b.status() != batch_status::active); }},
    {"end", [](batch_scope& b, tenure::handle<int>) { CHECK(b.end().kept == 0); }},
    {"clear", [](batch_scope& b, tenure::handle<int>) { b.clear(); }},
    {"keep_all", [](batch_scope& b, tenure::handle<int>) { b.keep_all(); }},
    {"discard", [](batch_scope& b, tenure::handle<int>) { b.discard(); }},  // which may come in time
};

/// Asks each question of a scope whose batch ends elsewhere: with `leave`, which is told when, or in the
/// background.
template <class Leave>
void ask_of_what_is_over(tenure::reclamation reclaim, Leave leave) {
    registry    r;
    batch_scope outer(r);
    for (auto const& [name, ask] : questions) {
        CAPTURE(name);
        for (int round = 0; round < 16; ++round) {
            batch_scope b(r, {.name = "over", .reclaim = reclaim});
            auto const  left = b.make<int>(1);
            auto const  kept = b.make<int>(2);
            b.keep(kept);
            b.make<std::string>("with an end");
            std::pmr::vector<int>       numbers(1, round, b.resource());
            std::atomic<bool>           over{false};
            [[maybe_unused]] auto const last = leave(b, over);
            b.end();
            over.store(true, std::memory_order_relaxed);
            try {
                ask(b, left);
            } catch (tenure::error const& e) {
                bool const known = e.code() == errc::batch_ended || e.code() == errc::stale_handle;
                CHECK_MESSAGE(known, e.what());
            }
            if (name != std::string_view("discard") || kept.alive()) CHECK(*kept == 2);
        }
    }
}

TEST_CASE("a scope that is over is asked while the last thread inside its batch leaves") {
    ask_of_what_is_over(tenure::reclamation::at_once, [](batch_scope& b, std::atomic<bool>& over) {
        return std::jthread([&over, in = b.lane()] {
            while (!over.load(std::memory_order_relaxed)) std::this_thread::yield();
        });
    });
}

TEST_CASE("a scope that is over is asked while its batch is freed in the background") {
    ask_of_what_is_over(tenure::reclamation::background, [](batch_scope&, std::atomic<bool>&) { return 0; });
}

TEST_CASE("a batch is asked for its use while its record goes to another registry's batch") {
    registry                   a, b;
    std::atomic<std::uint64_t> asked{0};
    std::atomic<bool>          over{false};
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 2; ++i)
            threads.emplace_back([&] {
                while (!over.load(std::memory_order_relaxed)) try {
                        auto const use = a.usage(batch_id{asked.load(std::memory_order_relaxed)});
                        CHECK(use.buffers <= 1);
                    } catch (tenure::error const& e) {
                        CHECK(e.code() == errc::no_such_batch);
                    }
            });
        for (std::size_t i = 0; i < 20'000 / (TENURE_SANITIZED ? 10 : 1); ++i) {
            {
                batch_scope s(a);
                s.make_buffer<int>(4);
                asked = s.id().value;
            }
            batch_scope s(b);
            s.make<int>(1);
        }
        over = true;
    }
}

TEST_CASE("threads enter and leave the root, each at the same time") {
    constexpr int n = TENURE_SANITIZED ? 300 : 50'000;
    registry      r;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 3; ++i)
            threads.emplace_back([&] {
                for (int k = 0; k < n; ++k) {
                    auto const in    = r.enter(r.root());
                    auto const again = r.enter(r.root());
                    if (k % 100 == 0) tenure::make<int>(k);
                    r.free(tenure::make<int>(k));
                }
            });
    }
    CHECK(r.usage(r.root()).objects == std::size_t{3} * n / 100);
    CHECK(r.status(r.root()) == tenure::batch_status::active);
}

TEST_CASE("threads that are in one batch keep what they make there, each at the same time") {
    constexpr std::size_t n = TENURE_SANITIZED ? 150 : 2'000;
    for (unsigned which = 0; which < 4; ++which) {
        bool const                 discarded = which & 1, below_root = which & 2;
        registry                   r;
        accounting const           books(r);
        std::optional<batch_scope> above;
        if (!below_root) above.emplace(r);
        auto const  objects_above = [&] { return r.usage(above ? above->id() : r.root()).objects; };
        batch_scope b(r);
        {
            std::vector<std::jthread> threads;
            for (int i = 0; i < 3; ++i)
                threads.emplace_back([&] {
                    auto const in = b.enter();
                    for (std::size_t k = 0; k < n; ++k) {
                        tenure::keep(tenure::make<std::size_t>(k));
                        std::vector<tenure::handle<std::size_t>> list;
                        while (list.size() < k % 7) list.push_back(tenure::make<std::size_t>(k));
                        for (auto const h : list) tenure::keep(h);
                        b.usage();
                    }
                });
            for (std::size_t k = 0; k < n; ++k) {
                std::array<tenure::handle<std::size_t>, 5> list;
                for (auto& h : list) h = b.make<std::size_t>(k);
                b.keep(list);
            }
        }
        std::size_t kept = 5 * n;
        for (std::size_t k = 0; k < n; ++k) kept += 3 * (1 + k % 7);
        CHECK(objects_above() == kept);
        CHECK(b.usage().objects == 0);
        auto const report = discarded ? b.discard() : b.end();
        CHECK(report.kept == kept);
        CHECK(objects_above() == (discarded ? 0 : kept));
    }
}

TEST_CASE("threads end and leave their guards to others, who destroy them at that moment") {
    registry         r;
    accounting const books(r);
    std::mt19937     dice(7);
    for (unsigned round = 0; round < (TENURE_SANITIZED ? 300 : 3'000); ++round) {
        std::array<std::atomic<batch_scope*>, 4> left{};
        std::array                               order{0u, 1u, 2u, 3u};
        std::shuffle(order.begin(), order.end(), dice);
        std::atomic<bool> there{false};
        auto const        destroy = [&](unsigned i) {
            while (!there) std::this_thread::yield();
            delete left[i].exchange(nullptr);
        };
        bool const   manual = round % 5 == 0;
        std::jthread opener([&, own = round % 3 == 0] {
            std::array<std::unique_ptr<batch_scope>, 4> mine;
            for (std::size_t i = 0; i < mine.size(); ++i) {
                auto const how = manual && i == 1 ? tenure::cleanup::manual : tenure::cleanup::on_exit;
                mine[i]        = std::make_unique<batch_scope>(r, tenure::batch_options{.cleanup = how});
                mine[i]->make<std::string>(30u, 'x');
                if (i % 2) r.new_batch({}, mine[i]->id());
            }
            for (std::size_t i = 0; i < mine.size(); ++i) left[i] = mine[i].release();
            there = true;
            if (own) delete left[3].exchange(nullptr);  // newest first, as it should
        });
        std::jthread other([&] {
            destroy(order[0]);
            destroy(order[1]);
        });
        if (round % 2) opener.join();
        destroy(order[2]);
        destroy(order[3]);
        if (opener.joinable()) opener.join();
        other.join();
        if (manual)
            for (auto const& b : r.snapshot().batches)
                if (b.id != r.root() && b.status == tenure::batch_status::retained) r.destroy_batch(b.id);
    }
}

TEST_CASE_TEMPLATE("of two threads that free the same object, one does", T, int, std::string, buffers) {
    far_store const  store;
    registry         r;
    accounting const books(r);
    batch_scope      b(r);
    auto const       all  = make_many<T>(b);
    auto const       free = [&](auto h) { return r.try_free(h); };
    auto const       done = at_once(all, free, free);
    CHECK(done[0] + done[1] == all.size());
    CHECK(b.usage().objects == 0);
}

TEST_CASE_TEMPLATE("of two threads that transfer and free the same object, each finds it whole or gone", T, int,
                   std::string, buffers) {
    far_store const  store;
    registry         r;
    accounting const books(r);
    batch_scope      b(r), mine(r), theirs(r);
    auto const       all  = make_many<T>(b);
    auto const       move = [&](auto h) { return r.try_transfer_ownership(h, mine.id()); };
    auto const       free = [&](auto h) { return r.try_free(h); };
    auto const       done = at_once(all, move, free);
    CHECK(done[1] == all.size());
    CHECK(mine.usage().objects + b.usage().objects == 0);

    auto const more  = make_many<T>(b);
    auto const steal = [&](auto h) { return r.try_transfer_ownership(h, theirs.id()); };
    auto const both  = at_once(more, move, steal);
    CHECK(both[0] + both[1] == 2 * more.size());
    CHECK(mine.usage().objects + theirs.usage().objects == more.size());
}

TEST_CASE("threads that pass buffers on, move, free and end them") {
    std::array const stores{make_lab<>("one"), make_lab<>("two")};
    {
        registry         r;
        accounting const books(r);
        struct item {
            tenure::buffer<std::uint64_t> is;
            std::uint64_t                 serial = 0;
        };
        market<item, 32>           on_offer;
        std::atomic<std::uint64_t> serials{1};
        std::atomic<int>           wrong{0};
        auto const                 work = [&](std::uint64_t seed) {
            dice                           roll(seed);
            std::array<std::uint64_t, 100> pattern{}, read{};
            auto const                     owns = [&](item const& x) {
                pattern.fill(x.serial);
                x.is.read(0, read);
                wrong += read != pattern;
            };
            for (int i = 0; i < (TENURE_SANITIZED ? 150 : 3000); ++i) {
                batch_scope       outer(r);
                batch_scope       b(r, {.store = stores[roll.below(2)]});
                std::vector<item> mine;
                for (std::size_t n = roll.below(20); n > 0; --n) {
                    item const x{b.make_buffer<std::uint64_t>(100), serials++};
                    pattern.fill(x.serial);
                    x.is.write(0, pattern);
                    mine.push_back(x);
                }
                for (item const& x : mine) {
                    if (roll.one_in(3)) b.keep(x.is);
                    if (roll.one_in(4)) x.is.move_to(stores[roll.below(2)]);
                    owns(x);
                    if (!roll.one_in(3)) continue;
                    // Whoever takes it is the only one to know it; its batch may end meanwhile.
                    r.transfer_ownership(x.is, r.root());
                    if (auto const gone = on_offer.put(x, roll())) r.free(gone->is);
                }
                for (std::size_t n = roll.below(8); n > 0; --n) {
                    auto const x = on_offer.take(roll());
                    if (!x) continue;
                    owns(*x);
                    if (roll.one_in(3)) x->is.move_to(stores[roll.below(2)]);
                    if (roll.one_in(2)) r.free(x->is);
                    else r.transfer_ownership(x->is, roll.one_in(2) ? b.id() : outer.id());
                }
                if (roll.one_in(3)) {
                    batch_id const id = b.detach();
                    std::jthread([&r, id] { r.end_batch(id); }).join();
                }
                if (roll.one_in(16)) r.snapshot();
            }
        };
        {
            std::vector<std::jthread> threads;
            for (std::uint64_t t = 0; t < 4; ++t) threads.emplace_back(work, dice::mix(t));
        }
        CHECK(wrong == 0);
        for (auto const& s : stores) CHECK(stores_error(r, s) == "");
        for (std::uint64_t i = 0; i < 32; ++i)
            if (auto const x = on_offer.take(i)) r.free(x->is);
        for (auto const& s : stores) CHECK(s->usage().blocks == 0);
    }
    for (auto const& s : stores) CHECK(s.use_count() == 1);
}

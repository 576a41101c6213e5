// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Random programs on more threads than cores that do all there is to do with batches and objects of others: no
// model can say what comes of it. But each call succeeds or is refused in one of the ways that the documents tell;
// what is pinned can be read; every object ends exactly once; and all is gone in the end. threads_test is its
// counterpart for what each thread knows to be its own. To be run in many schedules. TENURE_STEPS: how many steps,
// over all threads.

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "random/dice.hpp"
#include "random/kinds.hpp"

namespace {

using tenure::batch_id;
using tenure::batch_scope;
using tenure::errc;
using tenure::handle;
using tenure::registry;

/// Knows whether it is whole.
struct plain {
    explicit plain(std::uint64_t n) noexcept : serial(n), check(~n) {}
    bool          is_whole() const noexcept { return check == ~serial; }
    std::uint64_t serial, check;
};

std::atomic<std::int64_t> living{0};

/// What is in every buffer.
constexpr std::array<std::uint64_t, 8> contents{1, 2, 3, 4, 5, 6, 7, 8};

/// And whether it ends once, which another batch may notice.
struct counted : plain {
    explicit counted(std::uint64_t n) noexcept : plain(n) { ++living; }
    counted(counted const&)            = delete;
    counted& operator=(counted const&) = delete;
    ~counted() {
        CHECK(is_whole());
        check = serial;
        --living;
    }
};

using item =
    std::variant<handle<plain>, handle<counted>, tenure::buffer<std::uint64_t>, handle<tenure::deferred_call>>;
using owner = std::variant<tenure::unique_owner<plain>, tenure::unique_owner<counted>>;

/// What threads show each other.
struct board {
    std::mutex              mutex;
    std::array<item, 8>     items{};
    std::array<batch_id, 8> ids{};

    std::array<std::unique_ptr<batch_scope>, 8> guards{};  ///< for whoever comes by to destroy

    template <class T>
    T look(std::array<T, 8> const& from, std::uint64_t where) {
        std::scoped_lock const guard(mutex);
        return from[where % 8];
    }
    template <class T>
    T show(std::array<T, 8>& in, std::uint64_t where, T what) {
        std::scoped_lock const guard(mutex);
        return std::exchange(in[where % 8], std::move(what));
    }
};

/// Whether a call may be refused so, by what another thread did.
bool is_expected(std::error_code e) {
    for (errc const c : {errc::stale_handle, errc::batch_ended, errc::not_owner, errc::no_such_batch,
                         errc::cancelled, errc::expired, errc::object_pinned, errc::batch_in_use,
                         errc::not_restorable, errc::wrong_thread, errc::no_checkpoint, errc::evicted,
                         errc::limit_exceeded, errc::memory_full, errc::not_adopted, errc::below_itself})
        if (e == c) return true;
    return false;
}

class worker {
public:
    worker(registry& r, board& b, std::uint64_t seed) : registry_(r), board_(b), roll_(seed) {}

    /// All that it opens is below `top`.
    void work(batch_id top, std::uint64_t steps) {
        auto const in = registry_.enter(top);
        while (steps-- > 0) {
            try {
                step();
            } catch (tenure::error const& e) {
                CHECK_MESSAGE(is_expected(e.code()), std::string(e.what()));
            }
        }
        while (!scopes_.empty()) scopes_.pop_back();
    }

private:
    struct open {
        std::unique_ptr<batch_scope>                                              guard;
        std::vector<std::variant<tenure::pinned<plain>, tenure::pinned<counted>>> pins{};
    };

    item     some_item() { return board_.look(board_.items, roll_()); }
    batch_id some_id() {
        if (!scopes_.empty() && roll_.one_in(2)) return scopes_[roll_.below(scopes_.size())].guard->id();
        return board_.look(board_.ids, roll_());
    }

    void step() {
        auto const h  = some_item();
        auto const id = some_id();
        switch (roll_.below(34)) {
        case 0:
        case 1: return open_scope();
        case 2:
            if (!scopes_.empty()) close_scope();
            return;
        case 3: return open_loose();
        case 4: return registry_.end_batch(id);
        case 5: return roll_.one_in(2) ? registry_.destroy_batch(id) : registry_.cancel(id);
        case 6: return with(h, [&](auto x) { registry_.free(x); });
        case 7: return with(h, [&](auto x) { registry_.transfer_ownership(x, id); });
        case 8: return with(h, [&](auto x) { registry_.share(x, id); });
        case 9: return with(h, [&](auto x) { registry_.unshare(x, id); });
        case 10: return with(h, [&](auto x) { registry_.borrow(id, x); });
        case 11: return with(h, [&](auto x) { static_cast<void>(x.owner()); });
        case 12: return pin(h);
        case 13: return roll_.one_in(2) ? registry_.page_out(id) : registry_.page_in(id);
        case 14: return registry_.checkpoint(id);
        case 15: return roll_.one_in(2) ? registry_.rollback(id) : registry_.commit(id);
        case 16: return look(id);
        case 17:
            if (!scopes_.empty()) with(h, [&](auto x) { scopes_.back().guard->keep(x); });
            return;
        case 18:
            if (!scopes_.empty() && !scopes_.back().pins.empty()) scopes_.back().pins.pop_back();
            return;
        case 19: return use_buffer(h);
        case 20:
            if (!scopes_.empty()) leave_scope();
            return;
        case 21: return visit(id);
        case 22:
            if (scopes_.empty() || roll_.one_in(2)) registry_.clear(id);
            else if (roll_.one_in(2)) scopes_.back().guard->clear();
            else with(h, [&](auto x) { scopes_.back().guard->clear_but(x); });
            return;
        case 23:
            if (scopes_.empty() || roll_.one_in(2)) registry_.transfer_all(id, some_id());
            else if (roll_.one_in(2)) scopes_.back().guard->keep_all();
            else with(h, [&](auto x) { scopes_.back().guard->keep_all_but(x); });
            return;
        case 24: return take_back(h);
        case 25: return own(h);
        case 26:
            if (!owners_.empty())
                owners_.erase(owners_.begin() + static_cast<std::ptrdiff_t>(roll_.below(owners_.size())));
            return;
        case 27: return change(id);
        default: return make();
        }
    }

    template <class F>
    static void with(item const& h, F f) {
        std::visit(f, h);
    }

    void open_scope() {
        if (scopes_.size() > 3) return;
        tenure::batch_options o;
        if (roll_.one_in(4)) o.store = kinds::stores[2];
        if (roll_.one_in(4)) o.residency = tenure::residency::paged_when_left;
        else if (roll_.one_in(3)) o.residency = tenure::residency::automatic;
        if (roll_.one_in(6)) o.reclaim = tenure::reclamation::background;
        if (roll_.one_in(6)) o.cleanup = tenure::cleanup::manual;
        if (roll_.one_in(8)) o.limits.hard = 2'000;
        if (scopes_.empty() || roll_.one_in(2)) scopes_.push_back({std::make_unique<batch_scope>(registry_, o)});
        else
            scopes_.push_back(
                {std::make_unique<batch_scope>(tenure::below(*scopes_[roll_.below(scopes_.size())].guard), o)});
        if (roll_.one_in(2)) board_.show(board_.ids, roll_(), scopes_.back().guard->id());
    }

    /// The newest, mostly. Another one ends those below it, whose guards stay.
    void close_scope() {
        std::size_t const i = roll_.one_in(4) ? roll_.below(scopes_.size()) : scopes_.size() - 1;
        switch (roll_.below(8)) {
        case 0: scopes_[i].guard->end(); break;
        case 1: scopes_[i].guard->discard(); break;
        default: break;
        }
        scopes_.erase(scopes_.begin() + static_cast<std::ptrdiff_t>(i));
    }

    /// Leaves the newest to whoever comes by: its guard, or the batch alone.
    void leave_scope() {
        open& newest = scopes_.back();
        if (roll_.one_in(2)) {
            batch_id const other = board_.show(board_.ids, roll_(), newest.guard->detach());
            scopes_.pop_back();
            if (other) registry_.destroy_batch(other);
        } else {
            newest.pins.clear();
            auto const other = board_.show(board_.guards, roll_(), std::move(newest.guard));
            scopes_.pop_back();
        }
    }

    void visit(batch_id id) {
        auto const in   = registry_.enter(id);
        item const made = roll_.one_in(2) ? item(tenure::make<counted>(++serial_)) : tenure::make<plain>(++serial_);
        if (roll_.one_in(2)) with(made, [](auto x) { tenure::keep(x); });
        if (roll_.one_in(2)) board_.show(board_.items, roll_(), made);
    }

    /// One that has no guard, for whoever comes by; what it displaces is ended.
    void open_loose() {
        tenure::batch_options o{.name = "loose"};
        if (roll_.one_in(3)) o.residency = tenure::residency::automatic;
        if (roll_.one_in(4)) o.cleanup = tenure::cleanup::manual;
        batch_id const id    = registry_.new_batch(o, roll_.one_in(3) ? some_id() : batch_id{});
        batch_id const other = board_.show(board_.ids, roll_(), id);
        if (other) registry_.destroy_batch(other);
    }

    void make() {
        if (scopes_.empty()) return;
        batch_scope& b = *scopes_.back().guard;
        item         made;
        switch (roll_.below(7)) {
        case 5: made = b.adopt(std::make_unique<counted>(++serial_)); break;
        case 6:
            made = b.defer([held = std::make_unique<counted>(++serial_)] { CHECK(held->is_whole()); },
                           static_cast<tenure::release_phase>(roll_.below(3)));
            break;
        case 0: {
            auto const buffer = b.make_buffer<std::uint64_t>(8);
            buffer.write(0, contents);
            made = buffer;
            break;
        }
        case 1:
        case 2: made = b.make<counted>(++serial_); break;
        default: made = b.make<plain>(++serial_); break;
        }
        if (roll_.one_in(2)) board_.show(board_.items, roll_(), made);
    }

    void pin(item const& h) {
        if (scopes_.empty() || tenure::current_batch() != scopes_.back().guard->id()) return;
        with(h, [&](auto x) {
            if constexpr (requires { x->is_whole(); }) {
                auto p = tenure::pin(x);
                CHECK(p->is_whole());
                if constexpr (std::is_same_v<decltype(x), handle<plain>>)
                    if (roll_.one_in(2)) copy(x);
                scopes_.back().pins.emplace_back(std::move(p));
            }
        });
    }

    /// Of what was adopted, or deferred; all else is refused.
    void take_back(item const& h) {
        if (auto const* const object = std::get_if<handle<counted>>(&h)) {
            std::unique_ptr<counted> const back(registry_.release(*object));
            CHECK(back->is_whole());
        } else if (auto const* const call = std::get_if<handle<tenure::deferred_call>>(&h)) {
            registry_.cancel(*call);
        }
    }

    /// Takes something out of all batches, until somebody gives it to one or frees it, or the owner goes.
    void own(item const& h) {
        with(h, [&](auto x) {
            if constexpr (requires { x->is_whole(); }) owners_.emplace_back(registry_.detach(x));
        });
    }

    /// Copies what is pinned into any batch.
    void copy(handle<plain> h) {
        auto const made = tenure::try_keep_to(some_id(), h);
        CHECK(h->is_whole());
        if (!made) CHECK_MESSAGE(is_expected(made.error()), made.error().message());
        else if (roll_.one_in(2)) board_.show(board_.items, roll_(), item{*made});
    }

    /// Who reads a buffer sees to it that nobody frees it meanwhile.
    void use_buffer(item const& h) {
        auto const* const b = std::get_if<tenure::buffer<std::uint64_t>>(&h);
        if (!b || scopes_.empty()) return;
        registry_.borrow(scopes_.back().guard->id(), *b);
        std::array<std::uint64_t, 8> out{};
        b->read(0, out);
        CHECK(out == contents);
    }

    /// What it was opened with.
    void change(batch_id id) {
        switch (roll_.below(7)) {
        case 4:
        case 5: return registry_.reparent(id, some_id());
        case 6:
            if (!scopes_.empty()) scopes_[roll_.below(scopes_.size())].guard->reparent(id);
            return;
        case 0: return registry_.set_name(id, roll_.one_in(2) ? "short" : "one that is longer than a word");
        case 1: return registry_.set_priority(id, 1);
        case 2: return registry_.set_limits(id, {.hard = roll_.one_in(3) ? 2'000 : tenure::no_limit});
        default:
            return registry_.set_timeout(id, roll_.one_in(4)   ? std::chrono::nanoseconds(0)
                                             : roll_.one_in(2) ? std::chrono::hours(1)
                                                               : tenure::no_timeout);
        }
    }

    void look(batch_id id) {
        switch (roll_.below(6)) {
        case 0: static_cast<void>(registry_.snapshot()); break;
        case 1: static_cast<void>(registry_.usage(id)); break;
        case 2: static_cast<void>(registry_.status(id)); break;
        case 3: static_cast<void>(registry_.snapshot(id)); break;
        case 4: static_cast<void>(registry_.expire_overdue()); break;
        default:
            if (roll_.one_in(4)) static_cast<void>(registry_.try_warm(std::size_t{3} << 20));
            else registry_.trim();
        }
    }

    registry&         registry_;
    board&            board_;
    dice              roll_;
    std::uint64_t     serial_ = 0;
    std::vector<open> scopes_;

    std::vector<owner> owners_;
};

/// How many objects of 8 bytes a batch has room for, with a limit of 80.
int room_in(registry& r, batch_id id) {
    r.set_limits(id, {.hard = 80});
    auto const in = r.enter(id);
    for (int n = 0;; ++n)
        if (auto const made = tenure::try_make<std::uint64_t>(); !made) {
            CHECK(made.error() == errc::limit_exceeded);
            return n;
        }
}

}  // namespace

TEST_CASE("threads that do everything to each other's batches and objects") {
    std::uint64_t const seed  = from_environment("TENURE_SEED", 1);
    std::uint64_t const steps = from_environment("TENURE_STEPS", 600);
    kinds::stores[2]          = std::make_shared<tenure::heap_store>();
    {
        dice                      roll(seed);
        std::size_t const         unit = std::size_t{1} << 16;  // four batches or so fit where there is a limit
        bool const                full = roll.one_in(4);
        registry                  r({.memory_limit = {.high = full ? 4 * unit : tenure::no_limit}});
        board                     shown;
        tenure::batch_owner const top(r, {.name = "top", .limits = {.hard = tenure::no_limit - 1}});
        std::vector<std::jthread> threads;
        std::size_t const         n = 2 + roll.below(4);
        for (std::size_t i = 0; i < n; ++i)
            threads.emplace_back([&, each = roll()] { worker(r, shown, each).work(top, steps / n); });
        threads.clear();
        for (auto& guard : shown.guards) guard.reset();
        for (tenure::batch_info const& b : r.snapshot().batches)
            if (b.id != r.root() && b.id != top.id()) try {
                    r.destroy_batch(b.id);
                } catch (tenure::error const& e) {
                    CHECK(e.code() == errc::not_owner);  // what several share, which ends with the last of them
                }
        r.drain();
        for (tenure::batch_info const& b : r.snapshot().batches)
            CHECK_MESSAGE((b.id == r.root() || b.id == top.id() || b.shared_by), tenure::detail::describe(b));
        CHECK(books_error(r.snapshot()) == "");
        r.clear(top.id());
        if (!full) CHECK(room_in(r, top.id()) == 10);  // whatever was charged came back
    }
    CHECK(living == 0);
    CHECK(kinds::stores[2].usage().blocks == 0);
}

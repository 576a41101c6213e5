// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Random programs of batches that use each other's objects, against a plain model of who may still reach what: a
// batch that has ended is there as long as an active one reaches it, over uses and from children to parents.
// TENURE_STEPS: how many steps; TENURE_SEED: which programs.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "random/dice.hpp"

namespace {

using tenure::batch_id;
using tenure::batch_scope;
using tenure::batch_status;
using tenure::errc;
using tenure::handle;
using tenure::registry;

/// Knows how many of it there are, and is something else once it is gone.
struct thing {
    thing(std::size_t n, std::size_t& alive) : number(n), count(&alive) { ++*count; }
    ~thing() {
        --*count;
        number = ~std::size_t{0};
    }
    thing(thing const&)            = delete;
    thing& operator=(thing const&) = delete;

    std::size_t  number;
    std::size_t* count;
};

class world {
public:
    explicit world(std::uint64_t seed) : dice_(seed) {}

    void run(std::size_t steps) {
        for (std::size_t i = 0; i < steps; ++i) {
            step();
            check();
            if (!wrong_.empty()) return;
        }
        for (std::size_t b = 0; b < batches_.size(); ++b) destroy(b);
        check();
        scopes_.clear();
        if (alive_ != 0) wrong_ += "objects are left; ";
        if (registry_.snapshot().batches.size() != 1) wrong_ += "batches are left; ";
    }
    std::string const& wrong() const { return wrong_; }
    std::size_t        waited() const { return waited_; }  ///< steps after which a batch was waiting
    std::size_t        pinned() const { return pinned_; }  ///< calls that were refused for a pin

private:
    static constexpr std::size_t none = ~std::size_t{0};

    struct use {
        std::size_t                            object;
        std::unique_ptr<tenure::pinned<thing>> guard;  ///< null: borrowed, or its guard is gone
    };
    struct batch {
        batch_id         id;
        std::size_t      parent = none;
        batch_scope*     scope  = nullptr;
        bool             manual = false, detached = false;
        bool             retained = false, ended = false, gone = false;
        std::vector<use> uses;

        bool active() const { return !ended && !retained; }
    };
    struct object {
        handle<thing> h;
        std::size_t   owner;
        bool          gone = false;
    };

    template <class F>
    void expect(bool right, char const* what, F tell) {
        if (!right) wrong_ += std::string(what) + " (" + tell() + "); ";
    }

    std::vector<std::size_t> which(bool active) const {
        std::vector<std::size_t> out;
        for (std::size_t b = 0; b < batches_.size(); ++b)
            if (active ? batches_[b].active() : !batches_[b].gone) out.push_back(b);
        return out;
    }
    std::size_t pick(std::vector<std::size_t> const& from) {
        return from.empty() ? none : from[dice_.below(from.size())];
    }
    std::size_t pick_object() {
        std::vector<std::size_t> live;
        for (std::size_t o = 0; o < objects_.size(); ++o)
            if (!objects_[o].gone) live.push_back(o);
        return pick(live);
    }

    void step() {
        std::size_t const b = pick(which(true)), o = pick_object();
        switch (dice_.below(13)) {
        case 0: return open(none);
        case 1: return open(b);
        case 2:
        case 3: return b == none ? open(none) : make(b);
        case 4:
        case 5:
        case 6: return b == none || o == none ? open(b) : borrow(b, o);
        case 7: return b == none || o == none ? open(b) : pin(b, o);
        case 8: return release(pick(which(false)));
        case 9: return b == none || o == none ? void() : give(o, b);
        case 10: return o == none ? void() : free(o);
        case 11: return destroy(dice_.one_in(3) ? pick(which(false)) : none);
        default: return b == none ? void() : end(b);
        }
    }

    void open(std::size_t parent) {
        if (which(false).size() > 24) return end(pick(which(true)));
        batch b;
        b.parent = parent;
        b.manual = dice_.one_in(6);
        tenure::batch_options options;
        if (b.manual) options.cleanup = tenure::cleanup::manual;
        batch_id const above = parent == none ? batch_id{} : batches_[parent].id;
        if (dice_.one_in(3)) {
            auto const     visit  = parent == none ? registry_.root() : above;
            batch_id const before = registry_.set_current_batch(visit);
            auto           scope  = std::make_unique<batch_scope>(registry_, options);
            b.id                  = scope->id();
            b.detached            = dice_.one_in(3);
            if (b.detached) scope->detach();
            else b.scope = scopes_.emplace_back(std::move(scope)).get();
            registry_.set_current_batch(before);
        } else {
            b.id = registry_.new_batch(options, above);
        }
        batches_.push_back(std::move(b));
    }

    void make(std::size_t b) {
        auto const here = registry_.enter(batches_[b].id);
        objects_.push_back({tenure::make<thing>(objects_.size(), alive_), b});
    }

    bool is_used(std::size_t o) const {
        for (batch const& b : batches_)
            for (use const& u : b.uses)
                if (!b.gone && u.object == o) return true;
        return false;
    }

    void borrow(std::size_t b, std::size_t o) {
        bool const again = dice_.one_in(4);
        for (int i = 0; i <= again; ++i) {
            auto const done = registry_.try_borrow(batches_[b].id, objects_[o].h);
            expect(done.has_value(), "borrow", [&] { return done.error().message(); });
        }
        batches_[b].uses.push_back({o, nullptr});
    }

    void pin(std::size_t b, std::size_t o) {
        auto const here = registry_.enter(batches_[b].id);
        auto       p    = tenure::pin(objects_[o].h);
        expect(p && p->number == o, "pin", [&] { return std::to_string(o); });
        batches_[b].uses.push_back({o, std::make_unique<tenure::pinned<thing>>(std::move(p))});
    }

    void release(std::size_t b) {
        if (b == none) return;
        auto& uses = batches_[b].uses;
        for (std::size_t i = 0; i < uses.size(); ++i) {
            if (!uses[i].guard || !dice_.one_in(2)) continue;
            expect(bool(*uses[i].guard) == batches_[b].active(), "a guard's state",
                   [&] { return std::to_string(b); });
            uses[i].guard.reset();
            if (!batches_[b].active()) continue;  // it is no longer the guard's to release
            uses.erase(uses.begin() + static_cast<std::ptrdiff_t>(i));
            return;
        }
    }

    void give(std::size_t o, std::size_t to) {
        auto const done = registry_.try_transfer_ownership(objects_[o].h, batches_[to].id);
        bool const can  = !batches_[objects_[o].owner].ended;
        expect(done.has_value() == can, "give", [&] { return done ? "" : done.error().message(); });
        if (can) objects_[o].owner = to;
    }

    void free(std::size_t o) {
        auto const done = registry_.try_free(objects_[o].h);
        bool const over = batches_[objects_[o].owner].ended, used = is_used(o);
        errc const why = over ? errc::batch_ended : used ? errc::object_pinned : errc{};
        expect(done ? why == errc{} : done.error() == why, "free",
               [&] { return done ? "" : done.error().message(); });
        pinned_ += used;
        objects_[o].gone = !over && !used;
    }

    void end(std::size_t b) {
        if (b == none) return;
        if (batches_[b].scope && dice_.one_in(2)) {
            std::size_t held = 0;
            for (use const& u : batches_[b].uses) held += u.guard != nullptr;
            bool const active = batches_[b].active();
            auto const r      = batches_[b].scope->end();
            expect(!active || r.pins_held == held, "pins in the report",
                   [&] { return std::to_string(r.pins_held); });
        } else if (dice_.one_in(2)) {
            registry_.end_batch(batches_[b].id);
        } else {
            registry_.destroy_batch(batches_[b].id);
            batches_[b].manual = false;
        }
        mark_ended(b);
    }
    void mark_ended(std::size_t b) {
        (batches_[b].manual ? batches_[b].retained : batches_[b].ended) = true;
        for (std::size_t c = 0; c < batches_.size(); ++c)
            if (batches_[c].parent == b && batches_[c].active() && !batches_[c].detached) mark_ended(c);
    }
    void destroy(std::size_t b) {
        if (b == none) return;
        registry_.destroy_batch(batches_[b].id);
        batches_[b].manual = false;
        mark_ended(b);
    }

    /// What batches reach that are active, or retained, and so are there in any case.
    std::vector<bool> reached() const {
        std::vector<bool>        out(batches_.size());
        std::vector<std::size_t> todo;
        for (std::size_t b = 0; b < batches_.size(); ++b)
            if (!batches_[b].ended) todo.push_back(b);
        while (!todo.empty()) {
            std::size_t const b = todo.back();
            todo.pop_back();
            if (out[b]) continue;
            out[b] = true;
            for (use const& u : batches_[b].uses) todo.push_back(objects_[u.object].owner);
            if (batches_[b].parent != none) todo.push_back(batches_[b].parent);
        }
        return out;
    }

    /// A batch that is retained leaves its parent, once there is nothing below it.
    bool leave_parents(std::vector<bool> const& there) {
        bool left = false;
        for (std::size_t b = 0; b < batches_.size(); ++b) {
            if (!batches_[b].retained || batches_[b].ended || batches_[b].parent == none) continue;
            bool alone = true;
            for (std::size_t c = 0; c < batches_.size(); ++c)
                alone = alone && !(there[c] && batches_[c].parent == b);
            if (alone) batches_[b].parent = none;
            left = left || alone;
        }
        return left;
    }

    void check() {
        std::vector<bool> there = reached();
        while (leave_parents(there)) there = reached();
        for (std::size_t i = 0; i < batches_.size(); ++i) {
            batch& b = batches_[i];
            if (b.gone) continue;
            b.gone            = !there[i];
            auto const is     = registry_.status(b.id);
            auto const should = b.gone       ? batch_status::done
                                : b.ended    ? batch_status::ending
                                : b.retained ? batch_status::retained
                                             : batch_status::active;
            expect(is == should, "status of a batch", [&] {
                return std::to_string(i) + ": " + tenure::detail::to_string(is) + ", not " +
                       tenure::detail::to_string(should);
            });
            if (b.gone) b.uses.clear();
            else waited_ += b.ended;
            if (dice_.one_in(8)) check_waiting(i, there);
        }
        for (std::size_t i = 0; i < objects_.size(); ++i) {
            object& o = objects_[i];
            if (o.gone) continue;
            o.gone = batches_[o.owner].gone;
            expect(o.h.alive() == !o.gone, "an object's life", [&] { return std::to_string(i); });
            if (!o.gone && o.h.alive()) expect(o.h->number == i, "an object", [&] { return std::to_string(i); });
        }
    }

    /// Whom it waits for is there, and uses it or what waits with it in a ring.
    void check_waiting(std::size_t i, std::vector<bool> const& there) {
        auto const for_whom = registry_.waits_for(batches_[i].id);
        expect(for_whom.empty() == (!batches_[i].ended || batches_[i].gone), "whom it waits for",
               [&] { return std::to_string(i); });
        for (std::size_t w = 0; w < batches_.size(); ++w)
            for (batch_id const id : for_whom)
                if (batches_[w].id == id)
                    expect(there[w] && w != i, "somebody to wait for", [&] {
                        return std::to_string(i) + " for " + std::to_string(w) + "\n" +
                               registry_.snapshot().to_text();
                    });
    }

    registry                                  registry_;
    dice                                      dice_;
    std::size_t                               alive_ = 0, waited_ = 0, pinned_ = 0;
    std::vector<std::unique_ptr<batch_scope>> scopes_;
    std::vector<batch>                        batches_;
    std::vector<object>                       objects_;
    std::string                               wrong_;
};

}  // namespace

TEST_CASE("random uses do what the model does") {
    std::uint64_t const seed  = from_environment("TENURE_SEED", 1);
    std::uint64_t const steps = from_environment("TENURE_STEPS", TENURE_SANITIZED ? 10'000 : 60'000);
    std::size_t         done = 0, waited = 0, pinned = 0;
    for (std::uint64_t number = 0; done < steps; ++number) {
        std::uint64_t const which  = dice::mix(seed ^ dice::mix(number));
        std::size_t const   length = 10 + which % 300;
        world               w(which);
        w.run(length);
        INFO("program " << number << " of " << length << " steps, TENURE_SEED=" << seed);
        REQUIRE(w.wrong() == "");
        done += length;
        waited += w.waited();
        pinned += w.pinned();
    }
    CHECK(waited > steps / 10);
    CHECK(pinned > steps / 1000);
}

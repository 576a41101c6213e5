// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "machine.hpp"
#include "paging.hpp"

/// What each command does to the library and to the model, and what must come of it.

inline void machine::step(command const& c) {
    if (talkative_)
        std::fprintf(stderr, "%s %u %u %u\n", op_names[static_cast<std::size_t>(c.what)], c.a, c.b, c.c);
    auto const some = [&](auto const& all) { return c.a % all.size(); };
    switch (c.what) {
    case op::open: open(c, here() ? *here() : world_.root(), nullptr); break;
    case op::open_below:
        if (open_scope* const s = some_scope(c.a)) open(c, *s->batch, s);
        break;
    case op::open_bare: open_bare(c); break;
    case op::make: make(c, 1); break;
    case op::make_many: make(c, 2 + c.c % (c.c % 64 ? 60 : 2000)); break;
    case op::make_failing: make_failing(c); break;
    case op::adopt: adopt(c); break;
    case op::defer: defer(c); break;
    case op::grow: grow(c); break;
    case op::keep: keep(c, 1); break;
    case op::keep_several: keep(c, 2 + c.c % 2); break;
    case op::keep_range: keep_range(c); break;
    case op::transfer: transfer(c); break;
    case op::transfer_many:
        for (std::uint32_t i = 0; i < 2 + c.c % 40; ++i)
            transfer({c.what, static_cast<std::uint32_t>(dice::mix(c.a + i)), c.b, c.c});
        break;
    case op::free: free(c); break;
    case op::free_range: free_range(c); break;
    case op::free_half: free_half(c); break;
    case op::close:
        if (!scopes_.empty()) close(c.b % 4 ? scopes_.size() - 1 : some(scopes_));
        break;
    case op::end: end(c); break;
    case op::end_id: end_id(c, false); break;
    case op::destroy_id: end_id(c, true); break;
    case op::discard: discard(c); break;
    case op::detach: detach(c); break;
    case op::visit: visit(c); break;
    case op::leave: leave(); break;
    case op::enter: enter(c); break;
    case op::exit:
        if (!contexts_.empty() && contexts_.back().why == context::entered) exit();
        break;
    case op::lane: open_a_lane(c); break;
    case op::lane_close:
        if (!lanes_.empty()) close_lane(some(lanes_));
        break;
    case op::fill: fill(c); break;
    case op::move: move(c); break;
    case op::tire: tire(c); break;
    case op::trim: registry_.trim(); break;
    case op::look: look_at_batches(); break;
    case op::clear: clear(c); break;
    case op::give_all: give_all(c); break;
    case op::take_back: take_back(c); break;
    case op::own: own(c); break;
    case op::disown:
        if (!owners_.empty()) disown(some(owners_));
        break;
    case op::all_but: all_but(c); break;
    case op::change: change(c); break;
    case op::count: break;
    }
    if (std::string const said = page_something(registry_, world_, c); !said.empty()) throw mismatch(said);
    if (!trouble_.empty()) throw mismatch(trouble_);
    require(ended_.empty(), "objects ended that should live");
    look_at_current();
}

// ---- open
// ------------------------------------------------------------------------------------------------------------

inline void machine::open(command const& c, model::batch& parent, open_scope* below) {
    std::string const     name = c.b % 4 ? "scope " + std::to_string(c.b % 1000) : "";
    tenure::batch_options options{.name = name, .residency = some_residency(c)};
    if (c.b % 16 == 5) options.cleanup = tenure::cleanup::manual;
    std::size_t const store = c.b % 16 == 7 || c.b % 16 == 9 ? 1 + c.c % (kinds::stores.size() - 1) : 0;
    options.store           = kinds::stores[store];
    std::size_t hard        = 0;
    if (c.b % 16 == 6) {
        options.limits         = {.soft = std::size_t{1} << (12 + c.c % 8),
                                  .hard = hard = std::size_t{1} << (16 + c.c % 8)};
        options.limits.on_soft = [this, soft = options.limits.soft](tenure::batch_id, std::size_t in_use) {
            if (in_use <= soft) trouble("on_soft is called below the limit");
        };
    }
    std::unique_ptr<tenure::batch_scope> guard;
    auto const                           got      = outcome([&] {
        if (below) guard = std::make_unique<tenure::batch_scope>(tenure::below(*below->guard), options);
        else if (!here()) guard = std::make_unique<tenure::batch_scope>(registry_, options);
        else if (c.c % 2) guard = std::make_unique<tenure::batch_scope>(registry_, options);
        else guard = std::make_unique<tenure::batch_scope>(options);
    });
    bool const                           possible = parent.is_active() && !(below && below->release_hold);
    if (!agree(got, possible ? errc{} : errc::batch_ended)) return;
    model::batch& b = world_.open(guard->id(), parent);
    b.name          = name;
    b.guarded       = true;
    b.manual        = options.cleanup == tenure::cleanup::manual;
    b.limits        = hard != 0;
    b.limited       = b.limited || hard;
    if (store) b.store = store;
    say("opened", &b, "below", &parent, b.manual ? "manual" : "", hard ? "limited" : "");
    contexts_.push_back({context::scope, &b});
    scopes_.push_back({std::move(guard), &b, hard});
    require(scopes_.back().guard->status() == tenure::batch_status::active, "a new batch is not active");
    require(scopes_.back().guard->name() == name, "a batch has another name");
}

inline void machine::open_bare(command const& c) {
    model::batch&    parent  = *some_batch(c.a);
    bool const       nowhere = c.b % 16 == 0;
    tenure::batch_id id;
    auto const       got = outcome([&] {
        id = registry_.new_batch({.name = "bare",
                                        .cleanup = c.b % 16 == 1 ? tenure::cleanup::manual : tenure::cleanup::on_exit,
                                        .residency = some_residency(c)},
                                 nowhere ? tenure::batch_id{~std::uint64_t{0} >> 1} : parent.id);
    });
    if (!agree(got, nowhere ? errc::no_such_batch : parent.is_active() ? errc{} : errc::batch_ended)) return;
    model::batch& b = world_.open(id, parent);
    b.name          = "bare";
    b.manual        = c.b % 16 == 1;
    say("opened", &b, "without a guard below", &parent, b.manual ? "manual" : "");
}

// ---- make
// ------------------------------------------------------------------------------------------------------------

/// Calls f(place, its batch or null, list).
template <class F>
void machine::in_some_place(command const& c, F f) {
    std::uint32_t const which = c.a % 8;
    if (which == 0 && !lanes_.empty()) {
        open_lane& l = lanes_[c.a / 8 % lanes_.size()];
        f(*l.lane, l.batch, l.number);
    } else if (which < 5) {
        // The newest scopes do most of the work, as they do in life.
        if (scopes_.empty()) return;
        std::size_t const back = c.a / 8 % (1 + c.a / 64 % scopes_.size());
        open_scope&       s    = scopes_[scopes_.size() - 1 - back];
        f(*s.guard, s.known(), 0);
    } else if (model::batch* const b = here()) {
        kinds::current_batch place;
        f(place, b, 0);
    }
}

template <class Place>
void machine::make_in(Place& place, model::batch* where, std::uint64_t list, command const& c, std::size_t count) {
    kinds::kind<Place> const& kind = kinds::pick<Place>(c.b);
    for (std::size_t i = 0; i < count; ++i) {
        any_handle h;
        auto const got = outcome([&] { h = kind.make(place, world_.next_serial(), c.c); });
        if (!agree(got, where && where->is_active() ? errc{} : errc::batch_ended, where && where->limited)) return;
        model::object& o = world_.add(world_.next_serial(), *where, list);
        o.handle         = h;
        o.has_end        = kind.has_end;
        o.bound          = kind.bound;
        if (kind.bound) containers_.push_back(&o);
        if (as_buffer(h)) {
            buffers_.push_back(&o);
            std::size_t const named = kinds::store_of(c.c);
            o.store                 = named ? named : where->store;
        }
        if (i == 0) say("made", &o, "in", where, "and", count - 1, "more");
    }
}

inline void machine::make(command const& c, std::size_t count) {
    in_some_place(
        c, [&](auto& place, model::batch* where, std::uint64_t list) { make_in(place, where, list, c, count); });
}

/// A constructor that throws after it made other objects, or in the middle of an array: those others stay, and it
/// was never there.
template <class Place>
void machine::fail_in(Place& place, model::batch* where, std::uint64_t list, command const& c) {
    if (!where || !where->is_active()) return;
    auto const before = [&] {
        if (c.c % 2) make_in(place, where, list, c, 1 + c.c % 3);
    };
    std::uint64_t const ends     = failed_makes_;
    bool const          an_array = c.b % 4 == 0;
    bool                failed   = false;
    auto const          got      = outcome([&] {
        try {
            if (an_array) {
                std::size_t const n = kinds::array_size(c.c);
                specimens::orders = {.serial = never_made, .fail_at = static_cast<std::uint32_t>(c.b / 4 % n)};
                place.template make<specimens::element<8>[]>(n);
            } else if (c.b % 4 == 1) {
                place.template make<specimens::failing<100'000>>(never_made, before);
            } else {
                place.template make<specimens::failing<120>>(never_made, before);
            }
        } catch (specimens::planned_failure const&) {
            failed = true;
        }
    });
    say("failed to make in", where);
    if (!agree(got, errc{}, where->limited)) return;
    require(failed, "an exception of a constructor did not pass");
    require(failed_makes_ == ends + !an_array && (!an_array || specimens::orders.next == 0),
            "what failed in its constructor did not end as far as it was made");
}

inline void machine::make_failing(command const& c) {
    in_some_place(c, [&](auto& place, model::batch* where, std::uint64_t list) { fail_in(place, where, list, c); });
}

inline void machine::adopt(command const& c) {
    open_scope* const s = some_scope(c.a);
    if (!s) return;
    using thing           = specimens::ending<64>;
    auto                p = std::make_unique<thing>(world_.next_serial());
    any_handle          h;
    auto const          got     = outcome([&] {
        if (c.b % 2) {
            h = tenure::handle<specimens::specimen>(s->guard->adopt(std::move(p)));
        } else {
            h = tenure::handle<specimens::specimen>(s->guard->adopt(p.get(), [](thing* mine) { delete mine; }));
            p.release();
        }
    });
    model::batch* const b       = s->known();
    bool const          refused = !b || !b->is_active();
    if (p) ::operator delete(p.release());  // still its caller's, and of no account to the model
    if (!agree(got, refused ? errc::batch_ended : errc{}, b && b->limited)) return;
    model::object& o = world_.add(world_.next_serial(), *b, 0);
    o.handle         = h;
    o.has_end        = true;
    o.adopted        = true;
    say("adopted", &o, "into", b);
}

inline void machine::defer(command const& c) {
    open_scope* const s = some_scope(c.a);
    if (!s) return;
    auto const phase = c.b % 2 ? tenure::release_phase::in_order : static_cast<tenure::release_phase>(c.b / 2 % 3);
    auto const call  = [serial = world_.next_serial()] { specimens::watching->ended(serial); };
    any_handle h;
    auto const got = outcome([&] { h = c.b % 4 == 1 ? s->guard->defer(call) : s->guard->defer(call, phase); });
    model::batch* const b = s->known();
    if (!agree(got, b && b->is_active() ? errc{} : errc::batch_ended, b && b->limited)) return;
    model::object& o = world_.add(world_.next_serial(), *b, 0);
    o.has_end        = true;
    o.called         = true;
    o.phase          = static_cast<int>(phase);
    o.handle         = h;
    say("deferred", &o, "in", b);
}

inline void machine::grow(command const& c) {
    if (containers_.empty()) return;
    model::object&    o   = *containers_[c.a % containers_.size()];
    auto&             h   = std::get<tenure::handle<specimens::specimen>>(o.handle);
    auto&             v   = static_cast<specimens::container&>(*h);
    std::size_t const n   = c.b % 64 ? c.b % 50 : 30'000;
    auto const        got = outcome([&] { v.grow(n); });
    if (o.owner->is_active()) agree(got, errc{}, o.owner->limited);
    else if (got) agree(got, errc::batch_ended);  // what is left of its capacity it may still use
    require(v.holds_its_items(), "a container is not what it was");
    say("grew", &o, "by", n);
}

// ---- keep, transfer
// ---------------------------------------------------------------------------------------------------

inline void machine::keep(command const& c, std::size_t count) {
    using base             = tenure::handle<specimens::specimen>;
    open_scope* const s    = some_scope(c.a);
    bool const        free = count == 1 && c.c % 4 == 0 && here();  // by the free function, in the current batch
    if (!s && !free) return;
    model::batch* const from = free ? here() : s->known();
    if (!from) {
        model::object const* const o = some_object(c.b, nullptr, true);
        if (o)
            agree(outcome([&] { std::visit([&](auto const& h) { s->guard->keep(h); }, o->handle); }),
                  errc::batch_ended);
        return;
    }
    std::vector<model::object*> list;
    for (std::size_t i = 0; i < count; ++i) {
        model::object* const o = some_object(static_cast<std::uint32_t>(c.b + i * 8), from, true);
        if (!o || (count > 1 && !std::holds_alternative<base>(o->handle))) return;
        list.push_back(o);
    }
    auto const as_base = [&](std::size_t i) { return std::get<base>(list[i]->handle); };
    auto const got     = outcome([&] {
        if (count == 2) s->guard->keep(as_base(0), as_base(1));
        else if (count == 3) s->guard->keep(as_base(0), as_base(1), as_base(2));
        else if (free)
            std::visit([](auto const& h) { require(tenure::keep(h) == h, "keep() returned another"); },
                       list[0]->handle);
        else
            std::visit([&](auto const& h) { require(s->guard->keep(h) == h, "keep() returned another"); },
                       list[0]->handle);
    });
    bool const limited = from->parent && from->parent->limited;
    if (!agree(got, model::world::keep_outcome(*from, list), limited, is_lent(from))) return;
    for (model::object* o : list) {
        if (o->owner != from) continue;
        world_.give(*o, *from->parent);
        from->kept_out.push_back(o);
        say("kept", o, "from", from);
    }
}

inline void machine::keep_range(command const& c) {
    using base          = tenure::handle<specimens::specimen>;
    open_scope* const s = some_scope(c.a);
    if (!s || s->release_hold) return;
    std::vector<model::object*> list;
    std::vector<base>           handles;
    for (std::uint32_t i = 0; i < 1 + c.c % 50; ++i) {
        std::uint32_t const  x = static_cast<std::uint32_t>(dice::mix(c.b + i));
        model::object* const o = some_object(c.c % 3 ? x | 9 : x, s->batch, true);
        if (!o || !std::holds_alternative<base>(o->handle)) continue;
        list.push_back(o);
        handles.push_back(std::get<base>(o->handle));
    }
    auto const got     = outcome([&] { s->guard->keep(handles); });
    bool const limited = s->batch->parent && s->batch->parent->limited;
    if (!agree(got, model::world::keep_outcome(*s->batch, list), limited, is_lent(s->batch))) return;
    for (model::object* o : list) {
        if (o->owner != s->batch) continue;
        world_.give(*o, *s->batch->parent);
        s->batch->kept_out.push_back(o);
        say("kept", o, "from", s->batch);
    }
}

inline void machine::transfer(command const& c) {
    model::object* const o = some_object(c.a, scopes_.empty() ? nullptr : scopes_.back().batch, true);
    if (!o) return;
    model::batch* to = some_batch(c.b);
    if (c.c % 16 == 0 && !scopes_.empty()) to = scopes_[c.c / 16 % scopes_.size()].batch;  // which may be over
    tenure::batch_id id       = to->id;
    errc             expected = model::world::transfer_outcome(*o, *to);
    if (expected == errc{} && o == &foreign_) expected = errc::not_owner;
    if (c.c % 64 == 1) id = other_batch_, expected = errc::no_such_batch;
    if (c.c % 64 == 2) id.value = ~std::uint64_t{0} >> 2, expected = errc::no_such_batch;
    auto const got = outcome([&] {
        std::visit([&](auto const& h) { require(registry_.transfer_ownership(h, id) == h, "transferred another"); },
                   o->handle);
    });
    if (!agree(got, expected, to->limited, is_lent(o->owner)) || o->owner == to) return;
    say("transferred", o, "from", o->owner, "to", to);
    world_.give(*o, *to);
}

// ---- free
// ------------------------------------------------------------------------------------------------------------

inline void machine::free(command const& c) {
    open_scope* const    s = some_scope(c.b);
    model::object* const o = some_object(c.a, s ? s->batch : nullptr, false);
    if (!o) return;
    bool const through  = s && c.c % 2;  // the guard, which frees only what its batch owns
    errc       expected = model::world::free_outcome(*o);
    if (expected == errc{} && o == &foreign_) expected = errc::not_owner;
    if (expected != errc::stale_handle && through && s->batch != o->owner) expected = errc::not_owner;
    if (through && s->release_hold) expected = errc::batch_ended;
    say("free", o, through ? "through the guard of" : "", through ? text(s->batch).c_str() : "");
    model::fate f;
    if (expected == errc{}) world_.free(*o, f);
    auto const got = mark_dead(std::move(f), [&] {
        std::visit([&](auto const& h) { through ? s->guard->free(h) : registry_.free(h); }, o->handle);
    });
    agree(got, expected);
}

/// An adopted object becomes its caller's again, who frees it here; a deferred call is cancelled.
inline void machine::take_back(command const& c) {
    open_scope* const    s = some_scope(c.b);
    model::object* const o = some_object(c.a, s ? s->batch : nullptr, false);
    if (!o) return;
    bool const through  = s && c.c % 2;
    errc       expected = model::world::take_back_outcome(*o);
    if (expected == errc{} && o == &foreign_) expected = errc::not_owner;
    if (expected != errc::stale_handle && (o == &foreign_ || (through && s->batch != o->owner)))
        expected = errc::not_owner;
    if (through && s->release_hold) expected = errc::batch_ended;
    say("take back", o);
    model::fate f;
    if (expected == errc{}) {
        if (o->called) o->has_end = false;
        world_.free(*o, f);
    }
    auto const release = [&](auto const& h) {
        auto* const p = through ? s->guard->release(h) : registry_.release(h);
        require(p == h.unchecked() && ended_.empty(), "release() freed the object, or returned another");
        return p;
    };
    auto const got = mark_dead(std::move(f), [&] {
        if (auto const* const h = std::get_if<tenure::handle<tenure::deferred_call>>(&o->handle))
            through ? s->guard->cancel(*h) : registry_.cancel(*h);
        else if (auto const* const x = std::get_if<tenure::handle<specimens::specimen>>(&o->handle))
            delete static_cast<specimens::ending<64>*>(release(*x));
        else if (auto const* const y = std::get_if<tenure::handle<std::uint64_t const>>(&o->handle)) release(*y);
        else if (expected != errc{}) throw tenure::error(expected, "not asked for arrays and buffers");
    });
    agree(got, expected);
}

/// A unique_owner takes an object out of its batch.
inline void machine::own(command const& c) {
    open_scope* const    s = some_scope(c.b);
    model::object* const o = some_object(c.a, s ? s->batch : nullptr, true);
    if (!o || as_buffer(o->handle)) return;
    bool const through  = s && !s->release_hold && c.c % 2;
    errc       expected = model::world::transfer_outcome(*o, world_.root());
    if (expected == errc{} && (o == &foreign_ || (through && s->batch != o->owner))) expected = errc::not_owner;
    if (through && expected == errc::batch_ended && s->batch != o->owner) expected = errc::not_owner;
    if (through && s->batch->status == tenure::batch_status::done) expected = errc::batch_ended;
    if (through && s->batch->status == tenure::batch_status::ending) expected = errc::batch_ended;
    std::shared_ptr<void> owner;
    auto const            got = outcome([&] {
        std::visit(
            [&](auto const& h) {
                if constexpr (requires { h.unchecked(); })
                    owner = std::make_shared<decltype(registry_.detach(h))>(through ? s->guard->detach(h)
                                                                                               : registry_.detach(h));
            },
            o->handle);
    });
    if (!agree(got, expected, false, is_lent(o->owner))) return;
    say("own", o, "of", o->owner);
    if (o->owner != &world_.root()) world_.give(*o, world_.root());
    owners_.push_back({std::move(owner), o});
}

inline void machine::disown(std::size_t at) {
    open_owner gone = std::move(owners_[at]);
    owners_.erase(owners_.begin() + static_cast<std::ptrdiff_t>(at));
    say("disown", gone.object);
    model::fate f;
    if (gone.object->owner == &world_.root()) world_.free(*gone.object, f);
    mark_dead(std::move(f), [&] { gone.owner.reset(); });
}

inline void machine::free_range(command const& c) {
    using base = tenure::handle<specimens::specimen>;
    std::vector<model::object*> list;
    std::vector<base>           handles;
    bool                        stale = false;
    open_scope const* const     s     = some_scope(c.a);
    for (std::uint32_t i = 0; i < 1 + c.c % 40; ++i) {
        std::uint32_t const  x = static_cast<std::uint32_t>(dice::mix(c.b + i));
        model::object* const o = some_object(c.c % 4 ? x | 9 : x, s ? s->batch : nullptr, false);
        if (!o || o == &foreign_ || !std::holds_alternative<base>(o->handle)) continue;
        if (o->owner && o->owner->status == tenure::batch_status::ending) continue;
        stale = stale || !o->owner;
        list.push_back(o);
        handles.push_back(std::get<base>(o->handle));
    }
    model::fate f;
    if (!stale)
        for (model::object* o : list)
            if (o->owner) world_.free(*o, f);
    say("free a range of", list.size());
    agree(mark_dead(std::move(f), [&] { registry_.free(handles); }), stale ? errc::stale_handle : errc{});
}

/// What leaves a batch full of holes.
inline void machine::free_half(command const& c) {
    model::batch& b = *some_batch(c.a);
    if (b.status == tenure::batch_status::ending) return;
    std::vector<model::object*> half;
    for (model::object* o : b.objects)
        if (dice::mix(o->serial ^ c.b) % 4 < 1 + c.c % 3) half.push_back(o);
    say("free", half.size(), "of", b.objects.size(), "in", &b);
    for (model::object* o : half) {
        model::fate f;
        world_.free(*o, f);
        agree(mark_dead(std::move(f), [&] { std::visit([&](auto const& h) { registry_.free(h); }, o->handle); }),
              errc{});
    }
}

// ---- end
// -------------------------------------------------------------------------------------------------------------

inline void machine::check_report(tenure::batch_report const& r, model::batch const& b, bool over) const {
    if (over) {
        require(r.made == 0 && r.received == 0 && r.kept == 0 && r.freed == 0 && r.bytes == 0,
                "a second end reports something");
    } else {
        require(r.made == b.made, "made, as reported");
        require(r.received == b.received, "received, as reported");
        require(r.kept == b.given, "kept, as reported");
        bool const done = b.status == tenure::batch_status::done;
        require(r.freed == (done ? b.made + b.received - b.given : b.freed), "freed, as reported");
    }
    require(r.status == b.status, "status, as reported");
}

inline void machine::close(std::size_t at) {
    open_scope s = std::move(scopes_[at]);
    scopes_.erase(scopes_.begin() + static_cast<std::ptrdiff_t>(at));
    model::fate f;
    if (!s.release_hold) {
        world_.end(*s.batch, false, f);
        forget_scope(*s.batch);
    }
    say("close", s.known());
    mark_dead(std::move(f), [&] { s.guard.reset(); });
    if (!s.release_hold) s.batch->guarded = false;
}

inline void machine::end(command const& c) {
    open_scope* const s = some_scope(c.a);
    if (!s) return;
    bool const  over = s->release_hold || !s->batch->is_active();
    model::fate f;
    if (!s->release_hold) world_.end(*s->batch, false, f);
    say("end", s->known());
    tenure::batch_report r;
    agree(mark_dead(std::move(f), [&] { r = s->guard->end(); }), errc{});
    if (!s->release_hold) check_report(r, *s->batch, over);
}

inline void machine::discard(command const& c) {
    open_scope* const s = some_scope(c.a);
    if (!s) return;
    bool const  over = s->release_hold || !s->batch->is_active();
    model::fate f;
    if (!s->release_hold && s->batch->status != tenure::batch_status::done) world_.discard(*s->batch, f);
    if (!s->release_hold) world_.end(*s->batch, false, f);
    say("discard", s->known());
    tenure::batch_report r;
    agree(mark_dead(std::move(f), [&] { r = s->guard->discard(); }), errc{});
    if (!s->release_hold) check_report(r, *s->batch, over);
}

inline void machine::clear(command const& c) {
    open_scope* const s       = some_scope(c.a);
    bool const        through = s && c.b % 2;  // the guard
    model::batch&     b       = through ? *s->batch : *some_batch(c.a);
    if (is_lent(&b)) return;  // it depends on whether this thread has made something in that lane
    errc const why = through && s->release_hold ? errc::batch_ended : world_.clear_outcome(b);
    say("clear", &b);
    model::fate f;
    if (why == errc{}) world_.clear(b, f);
    agree(mark_dead(std::move(f), [&] { through ? s->guard->clear() : registry_.clear(b.id); }), why);
}

inline void machine::give_all(command const& c) {
    open_scope* const s    = some_scope(c.a);
    bool const        kept = s && c.b % 2;  // by the guard
    model::batch&     from = kept ? *s->batch : *some_batch(c.a);
    model::batch&     to   = kept && from.parent ? *from.parent : *some_batch(c.c);
    if (is_lent(&from)) return;  // as in clear()
    if (&to == &world_.root() && std::ranges::any_of(from.objects, &model::object::called))
        return;  // to stay for ever
    errc const why = kept && s->release_hold ? errc::batch_ended : world_.give_all_outcome(from, to);
    say("gave all of", &from, "to", &to);
    auto const got = outcome([&] { kept ? s->guard->keep_all() : registry_.transfer_all(from.id, to.id); });
    if (got == errc::not_self_contained && is_lent(&to)) return;
    if (agree(got, why, to.limited) && &from != &to) world_.give_all(from, to);
}

/// By a guard: all but some objects goes to the parent, or ends.
inline void machine::all_but(command const& c) {
    using base          = tenure::handle<specimens::specimen>;
    open_scope* const s = some_scope(c.a);
    if (!s || is_lent(s->batch)) return;  // as in clear()
    model::batch&               from = *s->batch;
    bool const                  kept = c.b % 2;
    std::vector<model::object*> list, staying;
    std::vector<base>           handles;
    for (std::uint32_t i = 0; i < c.c % 30; ++i) {
        std::uint32_t const  x = static_cast<std::uint32_t>(dice::mix(c.b + i));
        model::object* const o = some_object(c.c % 3 ? x | 9 : x, &from, true);
        if (!o || !std::holds_alternative<base>(o->handle)) continue;
        list.push_back(o);
        handles.push_back(std::get<base>(o->handle));
        if (o->owner == &from && std::ranges::find(staying, o) == staying.end()) staying.push_back(o);
    }
    if (kept && from.parent == &world_.root() && std::ranges::any_of(from.objects, &model::object::called))
        return;  // as in give_all()
    errc why = s->release_hold ? errc::batch_ended
               : kept          ? world_.give_all_outcome(from, *from.parent)
                               : world_.clear_outcome(from);
    if (why == errc{}) why = model::world::named_outcome(from, list);
    say(kept ? "keep all but" : "clear but", staying.size(), "of", &from);
    if (kept) {
        auto const got = outcome([&] { s->guard->keep_all_but(handles); });
        if (got == errc::not_self_contained && is_lent(from.parent)) return;
        if (agree(got, why, from.parent->limited)) world_.keep_all_but(from, staying);
    } else {
        model::fate f;
        if (why == errc{}) world_.clear_but(from, staying, f);
        agree(mark_dead(std::move(f), [&] { s->guard->clear_but(handles); }), why);
    }
}

/// The name or the limits of a batch.
inline void machine::change(command const& c) {
    model::batch& b = *some_batch(c.a);
    if (c.b % 2) {
        if (&b == &world_.root()) return;  // the next program may have the same
        std::string const name = "name " + std::to_string(c.c % 1000) + (c.c % 3 ? "" : " of many words");
        say("rename", &b);
        if (agree(outcome([&] { registry_.set_name(b.id, name); }), b.is_active() ? errc{} : errc::batch_ended))
            b.name = name;
        return;
    }
    if (is_lent(&b)) return;  // as in clear()
    errc const        why  = &b == &world_.root()        ? errc::not_owner
                             : b.is_active() && b.limits ? errc{}
                                                         : world_.clear_outcome(b);
    std::size_t const hard = c.c % 4 ? std::size_t{1} << (16 + c.c / 4 % 8) : tenure::no_limit;
    say("limit", &b, "to", hard);
    if (!agree(outcome([&] { registry_.set_limits(b.id, {.hard = hard}); }), why)) return;
    b.limits = b.limited = true;
    for (open_scope& s : scopes_)
        if (s.batch == &b) s.hard = hard == tenure::no_limit ? 0 : hard;
}

inline void machine::end_id(command const& c, bool destroy) {
    tenure::batch_id id = some_batch(c.a)->id;
    if (c.b % 8 == 0 && !scopes_.empty()) id = scopes_[c.b / 8 % scopes_.size()].batch->id;
    errc expected = id == world_.root().id ? errc::not_owner : errc{};
    if (c.b % 32 == 1) id = other_batch_, expected = errc::no_such_batch;
    model::fate f;
    if (expected == errc{}) world_.end(*world_.find(id), destroy, f);
    say(destroy ? "destroy #" : "end #", id.value);
    agree(mark_dead(std::move(f), [&] { destroy ? registry_.destroy_batch(id) : registry_.end_batch(id); }),
          expected);
    if (expected == errc{}) require(registry_.status(id) == world_.find(id)->status, "status of an ended batch");
}

inline void machine::detach(command const& c) {
    open_scope* const s = some_scope(c.a);
    if (!s) return;
    model::batch* const b = s->known();
    say("detach", b);
    bool const possible = b && b->is_open();
    if (!agree(outcome([&] { require(s->guard->detach() == s->batch->id, "detached another"); }),
               possible ? errc{} : errc::batch_ended))
        return;
    forget_scope(*b);
    b->guarded      = false;
    b->detached     = true;
    s->release_hold = true;
    if (c.b % 2) close(static_cast<std::size_t>(s - scopes_.data()));
}

// ---- the current batch
// -----------------------------------------------------------------------------------------------

/// Makes a batch without a guard current, or the root.
inline void machine::visit(command const& c) {
    model::batch& b = *some_batch(c.a);
    if (b.guarded || !enters_.empty()) return;
    context* const up = contexts_.empty() ? nullptr : &contexts_.back();
    if (up && up->why != context::visit && std::ranges::count(contexts_, context::visit, &context::why)) return;
    if (up && up->why == context::visit && up->batch == &b) return;
    tenure::batch_id const before = tenure::current_batch();

    model::fate f;
    bool const  possible = b.is_active();
    if (possible) {
        ++b.inside;
        if (up && std::exchange(up->holds, false)) world_.release_hold(*up->batch, f);
    }
    say("visit", &b);
    tenure::batch_id previous;
    if (!agree(mark_dead(std::move(f), [&] { previous = registry_.set_current_batch(b.id); }),
               possible ? errc{} : errc::batch_ended))
        return;
    require(previous == before, "set_current_batch returned another than was current");
    contexts_.push_back({context::visit, &b, true});
}

/// Makes current again what was before the visit; where that is over, what was before that.
inline void machine::leave() {
    if (contexts_.empty() || contexts_.back().why != context::visit) return;
    context gone = contexts_.back();
    contexts_.pop_back();
    while (!contexts_.empty() && contexts_.back().why == context::visit && !contexts_.back().batch->is_active()) {
        agree(outcome([&] { registry_.set_current_batch(contexts_.back().batch->id); }), errc::batch_ended);
        if (contexts_.back().holds) break;
        contexts_.pop_back();
    }
    model::fate    f;
    context* const up = contexts_.empty() ? nullptr : &contexts_.back();
    if (up && up->why == context::visit && !std::exchange(up->holds, true)) ++up->batch->inside;
    if (gone.holds) world_.release_hold(*gone.batch, f);
    say("leave", gone.batch);
    agree(mark_dead(std::move(f),
                    [&] {
                        if (up) registry_.set_current_batch(up->batch->id);
                        else go_home();
                    }),
          errc{});
}

inline void machine::enter(command const& c) {
    open_scope* const s = some_scope(c.a);
    if (!s || std::ranges::count(contexts_, context::visit, &context::why)) return;
    std::unique_ptr<tenure::entered> guard;
    model::batch* const              b   = s->known();
    auto const                       got = outcome([&] { guard.reset(new tenure::entered(s->guard->enter())); });
    if (!agree(got, b && b->is_active() ? errc{} : errc::batch_ended)) return;
    ++b->inside;
    contexts_.push_back({context::entered, b});
    enters_.push_back({std::move(guard), b});
    say("enter", b);
}

/// The newest only: such a guard lives on a stack.
inline void machine::exit() {
    open_enter e = std::move(enters_.back());
    enters_.pop_back();
    contexts_.pop_back();
    model::fate f;
    world_.release_hold(*e.batch, f);
    say("exit", e.batch);
    mark_dead(std::move(f), [&] { e.guard.reset(); });
}

inline void machine::open_a_lane(command const& c) {
    open_scope* const s = some_scope(c.a);
    if (!s) return;
    std::unique_ptr<tenure::lane> l;
    model::batch* const           b   = s->known();
    auto const                    got = outcome([&] { l = std::make_unique<tenure::lane>(s->guard->lane()); });
    if (!agree(got, b && b->is_active() ? errc{} : errc::batch_ended)) return;
    ++b->inside;
    b->has_lanes = true;
    lanes_.push_back({std::move(l), b, ++numbers_});
    say("lane into", b);
}

inline void machine::close_lane(std::size_t at) {
    open_lane l = std::move(lanes_[at]);
    lanes_.erase(lanes_.begin() + static_cast<std::ptrdiff_t>(at));
    model::fate f;
    world_.release_hold(*l.batch, f);
    say("close lane into", l.batch);
    mark_dead(std::move(f), [&] { l.lane.reset(); });
}

/// What was charged to a limit was given back with what was freed: an empty batch has room, and never too much.
inline void machine::fill(command const& c) {
    open_scope* const s = some_scope(c.a);
    if (!s || s->release_hold || !s->hard || !s->batch->is_active() || s->batch->parent->limited) return;
    model::batch& b        = *s->batch;
    auto const    too_much = outcome([&] { s->guard->make<std::uint64_t[]>(s->hard / 8 + 1); });
    agree(too_much, errc::limit_exceeded);
    if (s->guard->usage().bytes > 0 || b.is_held()) return;
    auto const h = s->guard->make<std::uint64_t[]>(s->hard / 16);
    s->guard->free(h);
    ++b.made, ++b.freed;
    say("filled", &b);
}

// ---- stores
// ------------------------------------------------------------------------------------------------------------

inline void machine::move(command const& c) {
    if (buffers_.empty()) return;
    model::object&    o   = *buffers_[buffers_.size() - 1 - c.a % std::min<std::size_t>(buffers_.size(), 50)];
    std::size_t const to  = c.b % kinds::stores.size();
    auto const        got = outcome([&] { as_buffer(o.handle)->move_to(kinds::stores[to]); });
    if (!agree(got, model::world::free_outcome(o))) return;
    o.store = to ? to : o.owner->store;
    say("moved", &o, "to", o.store);
}

/// The next time that it is to free something, it does not.
inline void machine::tire(command const& c) {
    tenure::fault const f{.on = tenure::store_operation::deallocate, .nth = 1 + c.b % 4};
    if (auto* const far = kinds::stores[1].get_if<lab_store<>>(); c.a % 2) far->inject(f);
    else kinds::stores[2].get_if<lab_store<{.addressable = true, .anonymous = true}>>()->inject(f);
    tired_ = true;
    say("a store is tired");
}

// ---- the end of the program
// ------------------------------------------------------------------------------------------

inline void machine::finish() {
    say("finish");
    while (!owners_.empty()) disown(owners_.size() - 1);
    while (!lanes_.empty()) close_lane(lanes_.size() - 1);
    while (!contexts_.empty()) {
        context const& c = contexts_.back();
        if (c.why == context::entered) exit();
        else if (c.why == context::visit) leave();
        else
            close(static_cast<std::size_t>(std::ranges::find(scopes_, c.batch, &open_scope::batch) -
                                           scopes_.begin()));
    }
    while (!scopes_.empty()) close(scopes_.size() - 1);
    go_home();
    for (;;) {
        auto const& living = world_.living();
        auto const  leaf = std::ranges::find_if(living, [](model::batch const* b) { return b->children.empty(); });
        if (leaf == living.end()) break;
        tenure::batch_id const id = (*leaf)->id;
        model::fate            f;
        world_.end(**leaf, true, f);
        agree(mark_dead(std::move(f), [&] { registry_.destroy_batch(id); }), errc{});
    }
    auto const left = world_.root().objects;
    for (model::object* o : left) {
        model::fate f;
        world_.free(*o, f);
        agree(mark_dead(std::move(f), [&] { std::visit([&](auto const& h) { registry_.free(h); }, o->handle); }),
              errc{});
    }
    for (std::uint64_t i = 0; i < world_.next_serial(); ++i) look_at(world_.with_serial(i));
    look_at_batches();
    require(registry_.usage(registry_.root()).objects == 0 || &registry_ == &tenure::registry::global(),
            "the root has objects that nobody knows");
    kinds::stores[1].get_if<lab_store<>>()->clear();
    kinds::stores[2].get_if<lab_store<{.addressable = true, .anonymous = true}>>()->clear();
    registry_.trim();
    for (tenure::store_info const& s : registry_.snapshot().stores) {
        bool const ours = s.name == kinds::stores[1].describe() || s.name == kinds::stores[2].describe();
        require(!ours || tired_ || s.buffers == 0, "a store holds buffers that nobody has");
        require(!ours || s.unfreed == 0, "a store was not asked again");
    }
    other_.end_batch(other_batch_);
    foreign_.owner = nullptr;
    look_at(foreign_);
}

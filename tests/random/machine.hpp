// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <tenure/tenure.hpp>

#include "../accounting.hpp"
#include "../stores/lab_store.hpp"
#include "kinds.hpp"
#include "model.hpp"
#include "program.hpp"

/// Runs programs in the library and in the model at once, and throws `mismatch` as soon as the two disagree.
/// This part has the state and the comparisons; operations.hpp has what commands do.
class machine final : specimens::watcher {
public:
    using errc = tenure::errc;

    /// `talkative`: says what it does, on stderr, for a reader of a shrunk program.
    machine(tenure::registry& r, tenure::registry& other, bool talkative);
    ~machine() { specimens::watching = nullptr; }

    void run(program const& p) {
        for (command const& c : p) {
            step(c);
            if (steps_++ % 16 == 0) look_at_some(c.c);
        }
        finish();
    }

private:
    struct open_scope {
        std::unique_ptr<tenure::batch_scope> guard;
        model::batch*                        batch;
        std::size_t                          hard         = 0;  ///< its own limit, if it has one
        bool                                 release_hold = false;

        model::batch* known() const { return release_hold ? nullptr : batch; }
    };
    struct open_lane {
        std::unique_ptr<tenure::lane> lane;
        model::batch*                 batch;
        std::uint64_t                 number;
    };
    struct open_enter {
        std::unique_ptr<tenure::entered> guard;
        model::batch*                    batch;
    };

    struct open_owner {
        std::shared_ptr<void> owner;  ///< a unique_owner
        model::object*        object;
    };

    /// Why a batch is current on this thread: the newest of these that still holds says which one.
    struct context {
        enum kind { scope, entered, visit } why;
        model::batch* batch;
        bool          holds = false;  ///< a visit that keeps its batch from going
    };

    static constexpr std::uint64_t never_made = ~std::uint64_t{0};  ///< serial of what fails in its constructor

    // ---- operations.hpp ----

    void step(command const& c);
    void finish();

    void open(command const& c, model::batch& parent, open_scope* below);
    void open_bare(command const& c);
    void make(command const& c, std::size_t count);
    void make_failing(command const& c);
    void adopt(command const& c);
    void defer(command const& c);
    void grow(command const& c);
    void keep(command const& c, std::size_t count);
    void keep_range(command const& c);
    void transfer(command const& c);
    void free(command const& c);
    void take_back(command const& c);
    void own(command const& c);
    void disown(std::size_t at);
    void free_range(command const& c);
    void free_half(command const& c);
    void close(std::size_t at);
    void end(command const& c);
    void end_id(command const& c, bool destroy);
    void discard(command const& c);
    void clear(command const& c);
    void give_all(command const& c);
    void all_but(command const& c);
    void change(command const& c);
    void detach(command const& c);
    void visit(command const& c);
    void leave();
    void enter(command const& c);
    void exit();
    void open_a_lane(command const& c);
    void close_lane(std::size_t at);
    void fill(command const& c);
    void move(command const& c);
    void tire(command const& c);

    template <class Place>
    void make_in(Place& place, model::batch* where, std::uint64_t list, command const& c, std::size_t count);
    template <class Place>
    void fail_in(Place& place, model::batch* where, std::uint64_t list, command const& c);
    template <class F>
    void in_some_place(command const& c, F f);
    void check_report(tenure::batch_report const& r, model::batch const& b, bool over) const;

    // ---- choices: an operand and what there is ----

    open_scope* some_scope(std::uint32_t choice) {
        return scopes_.empty() ? nullptr : &scopes_[choice % scopes_.size()];
    }

    /// One with its object: mostly of `from`, else of any batch, dead or alive, and once in a while not even of
    /// this registry. Null: there is none. `loose`: none that is bound to its batch.
    model::object* some_object(std::uint32_t choice, model::batch const* from, bool loose) {
        model::object* o = nullptr;
        if (choice % 32 == 0) {
            o = &foreign_;
        } else if (from && choice % 8 && !from->objects.empty()) {
            o = from->objects[choice / 8 % from->objects.size()];
        } else if (std::uint64_t const n = world_.next_serial()) {
            std::uint64_t const back = choice % 16 == 1 ? n : std::min<std::uint64_t>(n, 100);
            o                        = &world_.with_serial(n - 1 - choice / 16 % back);
        }
        return o && !(loose && o->bound) ? o : nullptr;
    }

    model::batch* some_batch(std::uint32_t choice) {
        auto const& all = world_.living();
        return all.empty() || choice % 16 == 0 ? &world_.root() : all[choice / 16 % all.size()];
    }

    static void go_home() { tenure::registry::global().set_current_batch(tenure::registry::global().root()); }

    /// The batch that the free functions act on; null: it is not of this registry.
    model::batch* here() { return world_.find(tenure::current_batch()); }

    // ---- comparisons ----

    template <class F>
    static std::error_code outcome(F call) {
        try {
            call();
            return {};
        } catch (tenure::error const& e) {
            return e.code();
        }
    }

    /// True: it did what was asked. `limited`: a limit may have refused it.
    static bool agree(std::error_code got, errc expected, bool limited = false, bool lent = false) {
        if (!got && expected == errc{}) return true;
        if (got && expected != errc{} && got == expected) return false;
        if (limited && got == errc::limit_exceeded) return false;
        if (lent && got == errc::wrong_thread) return false;
        throw mismatch("came to \"" + (got ? got.message() : "success") + "\", should have come to \"" +
                       (expected == errc{} ? "success" : tenure::make_error_code(expected).message()) + "\"");
    }

    /// Whether a lane into the batch is open: then large objects with an end may have to stay.
    bool is_lent(model::batch const* b) const {
        return std::any_of(lanes_.begin(), lanes_.end(), [&](open_lane const& l) { return l.batch == b; });
    }

    static void require(bool good, char const* what) {
        if (!good) throw mismatch(what);
    }

    /// A call that brings about `f` and no other ends.
    template <class F>
    std::error_code mark_dead(model::fate f, F call) {
        expected_ = std::move(f);
        for (std::size_t k = 0; k < expected_.size(); ++k)
            for (model::object* o : expected_[k].objects) o->place = k;
        std::error_code const got = outcome(call);
        check_pending_reclaims();
        return got;
    }
    void check_pending_reclaims();

    /// Scopes that end need not be the newest context; but a guard of enter() above them does not hear of it, and
    /// where the thread then goes on is not promised.
    template <class F>
    void forget_scopes(F over) {
        bool entered = false;
        for (std::size_t i = contexts_.size(); i-- > 0;) {
            entered = entered || contexts_[i].why == context::entered;
            if (contexts_[i].why != context::scope || !over(*contexts_[i].batch)) continue;
            adrift_ = adrift_ || entered;
            contexts_.erase(contexts_.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }
    void forget_scope(model::batch const& b) {
        forget_scopes([&](model::batch const& other) { return &other == &b; });
    }
    void forget_ended_scopes() {
        forget_scopes([](model::batch const& b) { return !b.is_active(); });
    }

    void look_at_some(std::uint32_t choice);
    void look_at(model::object const& o) const;
    void look_at_batches() const;
    void look_at_current();

    // ---- what objects say ----

    void ended(std::uint64_t serial) noexcept override;
    void damaged(std::uint64_t serial, char const* how) noexcept override {
        trouble("object " + std::to_string(serial) + " is damaged " + how);
    }
    void meddle(std::uint64_t serial) noexcept override;
    void trouble(std::string what) noexcept {
        if (trouble_.empty()) trouble_ = std::move(what);
    }

    template <class... Words>
    void say(Words const&... words) const {
        if (!talkative_) return;
        std::string line = "   ";
        ((line += ' ', line += text(words)), ...);
        std::fprintf(stderr, "%s\n", line.c_str());
    }
    static std::string text(char const* s) { return s; }
    static std::string text(std::size_t n) { return std::to_string(n); }
    static std::string text(model::batch const* b) { return b ? "#" + std::to_string(b->id.value) : "(let go)"; }
    static std::string text(model::object const* o) { return "o" + std::to_string(o->serial); }

    tenure::registry&           registry_;
    tenure::registry&           other_;
    tenure::batch_id            other_batch_;
    model::object               foreign_;
    model::batch                foreign_owner_;
    model::world                world_;
    std::vector<open_scope>     scopes_;
    std::vector<open_lane>      lanes_;
    std::vector<open_enter>     enters_;
    std::vector<open_owner>     owners_;
    std::vector<context>        contexts_;
    std::vector<model::object*> containers_;
    std::vector<model::object*> buffers_;  ///< of all times
    model::fate                 expected_;
    std::vector<std::uint64_t>  ended_;  ///< by this call, in order
    std::string                 trouble_;
    std::uint64_t               numbers_      = 0;
    std::uint64_t               steps_        = 0;
    std::uint64_t               failed_makes_ = 0;
    bool                        adrift_       = false;
    bool                        tired_        = false;  ///< a store did not free all that it was told to
    bool                        talkative_;
};

inline machine::machine(tenure::registry& r, tenure::registry& other, bool talkative)
    : registry_(r),
      other_(other),
      other_batch_(other.new_batch({.name = "foreign"})),
      world_(r.root()),
      talkative_(talkative) {
    // New ones for each program, for the root of the global registry may go on using the last.
    static std::uint64_t number = 0;
    std::string const    no     = std::to_string(++number);
    kinds::stores[1]            = make_lab<>("far " + no);
    kinds::stores[2]            = make_lab<{.addressable = true, .anonymous = true}>("near " + no);
    specimens::watching         = this;
    foreign_owner_.id           = other_batch_;
    foreign_.owner              = &foreign_owner_;
    foreign_.serial             = 77;
    auto const           before = other.set_current_batch(other_batch_);
    kinds::current_batch place;
    foreign_.handle = kinds::make_one<specimens::plain<64>>(place, foreign_.serial, 0);
    tenure::registry::global().set_current_batch(before);
}

inline void machine::check_pending_reclaims() {
    if (!trouble_.empty()) throw mismatch(trouble_);
    std::vector<std::size_t> order;  // of the funerals, as they were held
    std::size_t              at = 0;
    while (at < ended_.size()) {
        if (ended_[at] == never_made)
            throw mismatch("an object that failed in its constructor ended in another call");
        std::size_t const k = world_.with_serial(ended_[at]).place;
        require(k < expected_.size(), "an object ended that should live");
        model::funeral const& f = expected_[k];

        std::size_t const n = static_cast<std::size_t>(std::ranges::count_if(f.objects, &model::object::has_end));
        require(at + n <= ended_.size(), "not all objects of a batch ended");
        std::vector<std::pair<std::uint64_t, std::uint64_t>> last;  // list, arrival
        int                                                  phase = 0;
        for (std::size_t const stop = at + n; at < stop; ++at) {
            model::object& o = world_.with_serial(ended_[at]);
            require(o.owner == nullptr && o.place == k,
                    "an object ended that should live, or with those of another batch");
            require(o.phase >= phase, "a deferred call came after its phase");
            if (std::exchange(phase, o.phase) != o.phase) last.clear();
            auto const before = std::ranges::find(last, o.list, &decltype(last)::value_type::first);
            if (before == last.end()) last.emplace_back(o.list, o.arrival);
            else require(std::exchange(before->second, o.arrival) > o.arrival, "objects did not end newest first");
        }
        for (std::size_t const j : order) {
            require(j != k, "a batch ended in two parts");
            model::funeral const& earlier = expected_[j];
            bool const            related = !f.of || !earlier.of || model::world::is_or_above(earlier.of, f.of) ||
                                 (earlier.of->parent == f.of->parent && earlier.guarded == f.guarded);
            require(j < k || !related, "batches did not end newest first, or one before what is below it");
        }
        order.push_back(k);
    }
    std::size_t expected = 0;
    for (model::funeral const& f : expected_) {
        for (model::object* o : f.objects) {
            expected += o->has_end;
            require(!is_alive(o->handle), "a freed object has a handle that is alive");
        }
    }
    require(expected == ended_.size(), "objects should have ended and did not");
    std::erase_if(containers_, [](model::object const* o) { return !o->owner; });
    ended_.clear();
    expected_.clear();
    forget_ended_scopes();
}

inline void machine::look_at(model::object const& o) const {
    if (o.owner) {
        require(is_alive(o.handle), "an object is dead that should live");
        require(reads_well(o.handle, o.serial), "an object is not what it was");
        require(owner_of(o.handle) == o.owner->id, "an object has another owner than it should have");
        if (auto const* const b = as_buffer(o.handle)) {
            tenure::any_store const in = b->stores().front();
            require(o.store ? in == kinds::stores[o.store] : in.describe() == "heap",
                    "a buffer is in another store than it should be");
        }
        return;
    }
    require(!is_alive(o.handle), "a stale handle is alive again");
    require(outcome([&] { reads_well(o.handle, o.serial); }) == errc::stale_handle,
            "access through a stale handle");
    require(outcome([&] { owner_of(o.handle); }) == errc::stale_handle, "a stale handle has an owner");
    if (as_buffer(o.handle)) return;
    std::visit(
        [](auto const& h) {
            if constexpr (requires { h.get(); }) require(h.get() == nullptr, "get() of a stale handle");
        },
        o.handle);
}

inline void machine::look_at_batches() const {
    auto const        snapshot = registry_.snapshot();
    std::string const wrong    = books_error(snapshot);
    if (!wrong.empty()) throw mismatch(wrong);

    std::size_t found = 0;
    for (tenure::batch_info const& info : snapshot.batches) {
        model::batch const* const b = world_.find(info.id);
        if (!b) continue;  // not ours, in the global registry
        ++found;
        auto const same = [&](bool good, char const* what) {
            if (!good) throw mismatch(std::string(what) + " of " + text(b) + " in\n" + snapshot.to_text());
        };
        same(info.name == b->name, "name");
        same(info.status == b->status, "status");
        same(info.guarded == b->guarded, "guard");
        same(info.parent == (b->parent ? b->parent->id : tenure::batch_id{}), "parent");
        if (b->parent) same(info.usage.objects == b->objects.size(), "number of objects");
        same(info.usage.peak >= info.usage.bytes && info.usage.bytes >= 8 * info.usage.objects, "bytes");
        same(info.usage == registry_.usage(info.id), "usage");
        std::size_t buffers = 0, bytes = 0;
        for (model::object const* o : b->objects)
            if (auto const* const x = as_buffer(o->handle)) ++buffers, bytes += x->block().bytes;
        bool const exact = !tired_ && (b->parent || &registry_ != &tenure::registry::global());
        same(exact ? info.usage.buffers == buffers : info.usage.buffers >= buffers, "number of buffers");
        same(exact ? info.usage.buffer_bytes == bytes : info.usage.buffer_bytes >= bytes, "bytes in buffers");
    }
    require(found == world_.living().size() + 1, "the snapshot lacks a batch");
    for (std::size_t i = 1; i < kinds::stores.size(); ++i)
        if (std::string const why = stores_error(registry_, kinds::stores[i]); !why.empty()) throw mismatch(why);
}

inline void machine::look_at_current() {
    if (contexts_.empty() && std::exchange(adrift_, false)) go_home();
    if (adrift_ || contexts_.empty() || !contexts_.back().batch->is_active()) return;
    require(here() == contexts_.back().batch, "another batch is current than should be");
}

inline void machine::look_at_some(std::uint32_t choice) {
    std::uint64_t const n = world_.next_serial();
    for (std::uint64_t i = 0; i < 24 && n > 0; ++i) {
        std::uint64_t const x = dice::mix(choice + i);
        look_at(world_.with_serial(i % 2 ? x % n : n - 1 - x % std::min<std::uint64_t>(n, 200)));
    }
    look_at(foreign_);
    if (steps_ % 64 == 1) look_at_batches();
}

/// In a destructor, so among objects of which some are gone and some are not: their handles must say which.
inline void machine::ended(std::uint64_t serial) noexcept {
    if (serial == never_made) {
        ++failed_makes_;
        return;
    }
    if (serial >= world_.next_serial()) return trouble("an object ended that was never made");
    model::object& o = world_.with_serial(serial);
    if (o.ended) return trouble("object " + std::to_string(serial) + " ended twice");
    o.ended = true;
    ended_.push_back(serial);
    if (expected_.empty() || serial % 4) return;
    std::uint64_t const   x = dice::mix(serial + ended_.size());
    model::funeral const& f = expected_[x % expected_.size()];
    if (f.objects.empty()) return;
    model::object const& relative = *f.objects[(x >> 32) % f.objects.size()];
    if (!relative.has_end || &relative == &o) return;
    if (is_alive(relative.handle) == relative.ended)
        trouble(std::string("in the destructor of another, a handle is ") +
                (relative.ended ? "not stale" : "stale"));
}

/// A destructor may call the registry: in batches that are active all works as ever, in those that are over nothing
/// does.
inline void machine::meddle(std::uint64_t serial) noexcept try {
    model::batch const* const current = here();
    if (!current || expected_.empty()) return;
    auto const open_inner = [&] {
        tenure::batch_scope inner;
        auto const          h = inner.make<specimens::plain<64>>(serial);
        require(h->is_intact(serial), "what a destructor made is not what it was");
    };
    model::funeral const& f = expected_[world_.with_serial(serial).place];
    if (current->is_active()) {
        agree(outcome(open_inner), errc{}, current->limited);
    } else if (current == f.of) {
        agree(outcome(open_inner), errc::batch_ended);
        agree(outcome([] { tenure::make<std::uint64_t>(1u); }), errc::batch_ended);
    }
    if (!f.of) return;
    model::object const& sibling = *f.objects[serial % f.objects.size()];
    if (!sibling.has_end || sibling.serial == serial) return;
    agree(outcome([&] { std::visit([&](auto const& h) { registry_.free(h); }, sibling.handle); }),
          sibling.ended ? errc::stale_handle : errc::batch_ended);
} catch (mismatch const& e) {
    trouble(std::string("in a destructor that calls the registry: ") + e.what());
} catch (std::exception const& e) {
    trouble(e.what());
}

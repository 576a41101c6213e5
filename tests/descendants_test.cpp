// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// What an end or a cancellation reaches below a batch: trees of scopes on several threads, of batches without a
// guard, and of detached ones, against a model that is a plain tree. One thread at a time does something, so the
// model always knows what is right. TENURE_STEPS: how many steps; TENURE_SEED: which programs.

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
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
using tenure::registry;

/// A thread that does what it is told, while the teller waits.
class actor {
public:
    void does(std::function<void()> what) {
        std::unique_lock lock(mutex_);
        what_ = std::move(what);
        change_.notify_all();
        change_.wait(lock, [&] { return !what_; });
    }

    std::vector<std::unique_ptr<batch_scope>> scopes{};  ///< of this thread, oldest first

private:
    void run(std::stop_token const& stop) {
        std::unique_lock lock(mutex_);
        while (change_.wait(lock, stop, [&] { return bool(what_); })) {
            what_();
            what_ = {};
            change_.notify_all();
        }
    }

    std::mutex                  mutex_;
    std::condition_variable_any change_;
    std::function<void()>       what_;
    std::jthread                thread_{[this](std::stop_token const& s) { run(s); }};
};

struct node {
    batch_id id;
    batch_id parent;
    bool     detached = false;
    bool     over     = false;
};

/// One program: the registry, and what should be true of it.
class world {
public:
    explicit world(std::uint64_t seed) : roll_(seed) {}

    void run(std::size_t steps) {
        while (steps-- > 0 && !failed_) {
            step();
            for (node const& n : nodes_) {
                bool const active = registry_.status(n.id) == batch_status::active;
                failed_           = failed_ || active == n.over;
                CHECK_MESSAGE(active != n.over, tell(n));
            }
        }
        finish();
    }

private:
    /// Destructors end what is open, on the threads that opened it, and batches that nobody ended.
    void finish() {
        for (actor& a : actors_)
            a.does([&] {
                while (!a.scopes.empty()) a.scopes.pop_back();
                registry_.set_current_batch(registry::global().root());
            });
        for (node const& n : nodes_) registry_.end_batch(n.id);
        CHECK(registry_.snapshot().batches.size() == 1);
    }

    std::string tell(node const& n) {
        return std::to_string(n.id.value) + " below " + std::to_string(n.parent.value) + " is " +
               tenure::detail::to_string(registry_.status(n.id)) + "; " + last_;
    }

    node* find(batch_id id) {
        auto const at = std::find_if(nodes_.begin(), nodes_.end(), [&](node const& n) { return n.id == id; });
        return at == nodes_.end() ? nullptr : &*at;
    }
    bool is_root(batch_id id) const { return !id || id == registry_.root() || id == registry::global().root(); }
    bool is_over(batch_id id) {
        node const* const n = find(id);
        return !is_root(id) && (!n || n->over);  // what is over may be forgotten
    }
    batch_id any() { return nodes_.empty() ? batch_id{} : nodes_[roll_.below(nodes_.size())].id; }

    void mark(batch_id top, bool cancels) {
        find(top)->over = true;
        for (node const& n : nodes_)
            if (n.parent == top && (cancels || !n.detached)) mark(n.id, cancels);
    }
    void end(batch_id id, bool cancels) {
        if (node const* const n = find(id); n && !n->over) mark(id, cancels);
    }

    /// Opens something below `parent`, which must be refused if that is over.
    template <class F>
    void open(batch_id parent, F how) {
        bool const over = is_over(parent);
        try {
            nodes_.push_back({how(), parent});
            CHECK(!over);
        } catch (tenure::error const& e) {
            CHECK_MESSAGE(over, e.what());
        }
    }

    void step() {
        actor&         a    = actors_[roll_.below(actors_.size())];
        actor&         b    = actors_[roll_.below(actors_.size())];
        batch_id const id   = any();
        auto const     what = roll_.below(16);
        last_               = "after step " + std::to_string(what) + " with " + std::to_string(id.value);
        a.does([&] {
            switch (what) {
            case 0:
            case 1:
            case 2: return open_scope(a);
            case 3: return open_below(a, b);
            case 4:
            case 5:
            case 6: return open(id, [&] { return registry_.new_batch({.name = "loose"}, id); });
            case 7:
            case 8: return open_inside(a, id);
            case 9: return detach(a);
            case 10:
            case 11: return close(a, a.scopes.size() - 1);
            case 12: return close(a, roll_.below(a.scopes.size() + 1));
            case 13:
            case 14: return stop(id, what == 14);
            default: return forget();
            }
        });
    }

    void open_scope(actor& a) {
        open(tenure::current_batch(), [&] {
            a.scopes.push_back(std::make_unique<batch_scope>(registry_));
            return a.scopes.back()->id();
        });
    }
    void open_below(actor& a, actor& other) {
        if (other.scopes.empty()) return;
        batch_scope& up = *other.scopes[roll_.below(other.scopes.size())];
        open(up.id(), [&] {
            a.scopes.push_back(std::make_unique<batch_scope>(tenure::below(up)));
            return a.scopes.back()->id();
        });
    }
    /// A scope in a batch that the thread comes into for it.
    void open_inside(actor& a, batch_id id) {
        if (!id) return;
        open(id, [&] {
            registry_.set_current_batch(id);
            a.scopes.push_back(std::make_unique<batch_scope>(registry_));
            return a.scopes.back()->id();
        });
    }
    void detach(actor& a) {
        if (a.scopes.empty()) return;
        auto const at = a.scopes.begin() + static_cast<std::ptrdiff_t>(roll_.below(a.scopes.size()));
        if (is_over((*at)->id())) return;
        find((*at)->detach())->detached = true;
        a.scopes.erase(at);
    }
    void close(actor& a, std::size_t which) {
        if (which >= a.scopes.size()) return;
        end(a.scopes[which]->id(), false);
        a.scopes.erase(a.scopes.begin() + static_cast<std::ptrdiff_t>(which));
    }
    void stop(batch_id id, bool cancels) {
        if (!id) return;
        end(id, cancels);
        cancels ? registry_.cancel(id) : registry_.end_batch(id);
    }
    /// What is over and has nothing below it says nothing new.
    void forget() {
        std::erase_if(nodes_, [&](node const& n) {
            auto const below = [&](node const& c) { return c.parent == n.id; };
            return n.over && std::none_of(nodes_.begin(), nodes_.end(), below);
        });
    }

    dice                 roll_;
    registry             registry_;
    std::array<actor, 3> actors_{};
    std::vector<node>    nodes_;
    std::string          last_;
    bool                 failed_ = false;
};

}  // namespace

TEST_CASE("ends and cancellations reach what is below a batch, and nothing else") {
    std::uint64_t const seed  = from_environment("TENURE_SEED", 1);
    std::uint64_t const steps = from_environment("TENURE_STEPS", TENURE_SANITIZED ? 10'000 : 40'000);
    dice                roll(seed);
    for (std::uint64_t done = 0; done < steps;) {
        std::uint64_t const program = roll();
        std::size_t const   length  = 10 + roll.below(std::uint64_t{10} << roll.below(6));
        CAPTURE(program);
        world(program).run(length);
        done += length;
    }
}

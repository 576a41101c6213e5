// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Failure at the 1st, 2nd, 3rd ... allocation, mapping and constructor of a scenario that uses most of the API,
// until a run has none: after each, nothing is leaked, destroyed twice or half kept, and the books are right. (The
// manner is SQLite's, and boost.unordered's exception tests'.)
//
// Each run has a process of its own, forked before tenure was first used: else what an earlier run has warmed up
// would not fail in a later one.

#include "failing.hpp"

// The first mappings are made before main.
inline bool const armed_before_main = [] {
    if (char const* const n = std::getenv("TENURE_TEST_FAIL_MAPPING")) failing::arm(failing::mapping, std::atol(n));
    return true;
}();

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <memory_resource>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <tenure/budget.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"

#if TENURE_ASAN
#include <sanitizer/lsan_interface.h>
#endif

namespace {

using tenure::batch_id;
using tenure::batch_info;
using tenure::batch_scope;
using tenure::batch_status;
using tenure::cleanup;
using tenure::errc;
using tenure::handle;
using tenure::registry;

/// Ends the child process that a run is.
[[noreturn]] void broken(char const* what, int line) {
    std::fprintf(stderr, "faults_test.cpp:%d: %s\n", line, what);
    std::_Exit(1);
}
#define HOLDS(...) ((__VA_ARGS__) ? void() : broken(#__VA_ARGS__, __LINE__))

struct refused : std::runtime_error {
    refused() : std::runtime_error("constructor") {}
};

/// Counts constructions and destructions of each of a run's objects.
class item {
public:
    static constexpr int most = 2048;

    item() : number_(next++) {
        if (number_ >= most) broken("more items than expected", __LINE__);
        if (failing::due(failing::constructor)) throw refused();
        ++made[number_];
    }
    explicit item(std::size_t) : item() {}
    item(item const&)            = delete;
    item& operator=(item const&) = delete;
    ~item() {
        if (++ended[number_] != made[number_]) broken("destroyed twice, or never made", __LINE__);
    }

    static bool none_left() {
        for (int i = 0; i < most; ++i)
            if (made[i] != ended[i]) return false;
        return true;
    }

    static inline std::atomic<int> next = 0;
    static inline int              made[most]{};
    static inline int              ended[most]{};

private:
    int  number_;
    char filling_[100]{};
};

/// A step may fail, by what was injected and by nothing else; the scenario goes on.
template <class F>
bool attempt(F f) {
    try {
        f();
        return true;
    } catch (std::bad_alloc const&) {
        HOLDS(failing::now.failed);
    } catch (refused const&) {
        HOLDS(failing::now.failed);
    } catch (tenure::error const& e) {
        if (e.code() != errc::memory_full) broken(e.what(), __LINE__);
        HOLDS(failing::now.failed);
    }
    return false;
}

void check_books(registry const& r) {
    failing::disarm();
    std::string const wrong = books_error(r.snapshot());
    if (!wrong.empty()) broken(wrong.c_str(), __LINE__);
    for (batch_info const& b : r.snapshot().batches) {
        HOLDS(b.usage.peak >= b.usage.bytes);
        HOLDS(b.usage.objects > 0 || b.usage.bytes == 0 || b.usage.retained > 0);
    }
}

/// Most of the API, a step at a time.
class scenario {
public:
    explicit scenario(unsigned kinds, long nth) { failing::arm(kinds, nth); }

    void run() {
        attempt([] { registry::global(); });
        std::optional<registry> r;
        attempt([&] { r.emplace(tenure::registry_options{.on_leak = [](std::string const&) {}}); });
        if (!r) return;
        attempt([&] { nested(*r); });
        attempt([&] { kept_and_freed(*r); });
        attempt([&] { lists(*r); });
        attempt([&] { all_but(*r); });
        attempt([&] { given_back(*r); });
        attempt([&] { shared(*r); });
        attempt([&] { derived(*r); });
        attempt([&] { adopted(*r); });
        attempt([&] { large(*r); });
        attempt([&] { resource(*r); });
        attempt([&] { by_id(*r); });
        attempt([&] { lanes(*r); });
        attempt([&] { limited(*r); });
        attempt([&] { reserved(*r); });
        attempt([&] { buffers(*r); });
        attempt([&] { elements(*r); });
        attempt([&] { named_store(*r); });
        attempt([&] { crowd(*r); });
        attempt([&] { looked_at(*r); });
        left_behind(*r);
    }

private:
    static void nested(registry& r) {
        batch_scope top{r, {.name = "top"}};
        batch_scope middle;
        batch_scope inner;
        for (int i = 0; i < 12; ++i) {
            tenure::make<item>();
            middle.make<std::array<char, 12'000>>();
            top.make<item[]>(3);
        }
        inner.end();
        tenure::make<std::string>("a text that is longer than a string holds within");
    }

    static void kept_and_freed(registry& r) {
        batch_scope outer{r};
        batch_scope inner;
        for (int i = 0; i < 24; ++i) {
            std::size_t const before = outer.usage().objects, mine = inner.usage().objects;
            handle<item>      h;
            if (!attempt([&] { h = inner.make<item>(); })) {
                HOLDS(inner.usage().objects == mine);
                continue;
            }
            if (i % 3 == 0) {
                bool const kept = attempt([&] { inner.keep(h); });
                HOLDS(h.alive());
                HOLDS(h.owner() == (kept ? outer : inner).id());
                HOLDS(outer.usage().objects == before + kept);
                HOLDS(inner.usage().objects == mine + !kept);
            } else if (i % 3 == 1) {
                inner.free(h);
                HOLDS(!h.alive());
                HOLDS(inner.usage().objects == mine);
            }
        }
    }

    /// A list is kept whole or not at all.
    static void lists(registry& r) {
        batch_scope               outer{r};
        std::vector<handle<item>> all;
        std::array<batch_id, 4>   beside{};
        all.reserve(16);
        for (batch_id& id : beside) id = r.new_batch();
        struct finally {
            registry&                r;
            std::array<batch_id, 4>& ids;
            ~finally() {
                for (batch_id const id : ids) r.end_batch(id);
            }
        } const at_end{r, beside};
        {
            batch_scope inner;
            for (int i = 0; i < 16; ++i) all.push_back(inner.make<item>());
            // Some go elsewhere, so that their slab has many owners: more than it has room for by itself.
            for (std::size_t i = 0; i < 8; ++i) {
                batch_id const to    = beside[i % 4];
                bool const     moved = attempt([&] { r.transfer_ownership(all[i], to); });
                HOLDS(all[i].owner() == (moved ? to : inner.id()));
            }
            std::vector<handle<item>> mine;
            mine.reserve(all.size());
            for (auto const& h : all)
                if (h.owner() == inner.id()) mine.push_back(h);
            bool const kept = attempt([&] { inner.keep(mine); });
            for (auto const& h : mine) HOLDS(h.owner() == (kept ? outer : inner).id());
            HOLDS(outer.usage().objects == (kept ? mine.size() : 0));
            if (kept) attempt([&] { inner.discard(); });
            for (auto const& h : mine) HOLDS(h.alive() == !kept);
        }
    }

    struct many_items {
        many_items(batch_scope& b, std::size_t n) {
            all.reserve(n);
            staying.reserve(n);
            for (std::size_t i = 0; i < n; ++i) {
                attempt([&] { all.push_back(b.make<item>()); });
                attempt([&] { b.make<std::array<char, 12'000>>(); });
                if (i % 3 == 0 && !all.empty()) staying.push_back(all.back());
            }
        }
        bool stays(handle<item> h) const { return std::ranges::find(staying, h) != staying.end(); }

        std::vector<handle<item>> all, staying;
    };

    /// All but some of a batch goes or is freed, or nothing does.
    static void all_but(registry& r) {
        batch_scope outer{r};
        for (int i = 0; i < 4; ++i) {
            bool const       keeps = i % 2;
            batch_scope      inner;
            many_items const items(inner, i < 2 ? 6 : 36);
            attempt([&] { inner.make_buffer<int>(1000); });
            std::size_t const before = inner.usage().objects, above = outer.usage().objects;
            bool const        done =
                attempt([&] { keeps ? inner.keep_all_but(items.staying) : inner.clear_but(items.staying); });
            for (handle<item> const h : items.all) {
                bool const here = !done || items.stays(h);
                HOLDS(h.alive() == (here || keeps));
                HOLDS(!h.alive() || h.owner() == (here ? inner : outer).id());
            }
            HOLDS(inner.usage().objects + outer.usage().objects ==
                  (done && !keeps ? inner.usage().objects : before) + above);
            attempt([] { tenure::make<item>(); });
            HOLDS(inner.end().kept == (done && keeps ? before - items.staying.size() : 0));
        }
    }

    /// A batch that cannot be opened leaves its reservation to another, and what a job had is free at its end.
    static void reserved(registry& r) {
        tenure::budget_options o;
        o.capacity = 64 << 20;
        o.in_use   = [] { return tenure::memory_use{}; };
        o.relieve  = [](std::size_t) {};
        tenure::memory_budget budget(o);
        tenure::reservation   room = budget.reserve({.kind = "job", .bytes = 1 << 20});
        bool                  open = false;
        for (int tries = 0; tries < 2 && !open; ++tries)
            attempt([&] {
                batch_scope job{r, {.name = "job", .reservation = room}};
                open = true;
                attempt([&] { job.make<item>(); });
                attempt([&] { job.make<char[]>(std::size_t{2} << 20); });  // more than there is
                HOLDS(room.bytes() >= job.usage().bytes);
            });
        HOLDS(open || failing::now.failed);
        HOLDS(room.bytes() == (open ? 0 : 1 << 20));
        room.release();
        HOLDS(budget.figures().reserved == 0);
    }

    /// What an error undoes comes back, or, if memory is full even for that, ends with the batch.
    static void given_back(registry& r) {
        batch_scope outer{r};
        for (bool const keeps : {false, true}) {
            batch_scope      inner;
            many_items const items(inner, 12);
            attempt([&] { inner.make_buffer<int>(1000); });  // whose return takes memory
            auto const freed = inner.make<int>(1);
            inner.free(freed);
            auto const try_all_but = [&](auto const& staying) {
                return keeps ? inner.try_keep_all_but(staying) : inner.try_clear_but(staying);
            };
            std::error_code const why = try_all_but(std::tie(items.staying, freed)).error();
            HOLDS(why == errc::stale_handle || (why == errc::memory_full && failing::now.failed));
            bool const back = std::ranges::all_of(items.all, [&](auto h) { return h.owner() == inner.id(); });
            HOLDS(back || failing::now.failed);
            for (handle<item> const h : items.all) HOLDS(h.alive());
            HOLDS(tenure::current_batch() == inner.id());
            attempt([] { tenure::make<item>(); });
            inner.end();
            for (handle<item> const h : items.all) HOLDS(!h.alive());
            HOLDS(outer.usage().objects == 0);
        }
    }

    /// Who has a share has it, and nobody else; a broadcast and a keep are whole or not at all.
    static void shared(registry& r) {
        batch_scope             outer{r};
        std::array<batch_id, 3> others{};
        handle<item>            h, all;
        bool                    has = false, kept = false, sent = false;
        struct finally {
            registry&                r;
            std::array<batch_id, 3>& ids;
            ~finally() {
                for (batch_id const id : ids)
                    if (id) r.end_batch(id);
            }
        } at_end{r, others};
        for (batch_id& id : others) id = r.new_batch();
        {
            batch_scope inner;
            h   = inner.make<item>();
            all = inner.make<item>();
            has = attempt([&] { inner.share(h, others[0]); });
            HOLDS(has || h.owner() == inner.id());
            sent = attempt([&] { inner.broadcast(all, others); });
            if (has) {
                kept                = attempt([&] { inner.keep(h); });
                handle<item> unused = h;
                attempt([&] { unused = inner.keep(inner.make<item>()); });
            }
            std::vector<handle<item>> many;
            many.reserve(9);
            attempt([&] {
                for (int i = 0; i < 9; ++i) many.push_back(inner.share(inner.make<item>(), others[1]));
            });
            for (auto const& x : many) r.unshare(x, others[1]);
            for (auto const& x : many) HOLDS(x.alive());
        }
        HOLDS(h.alive() == (has || kept));
        HOLDS(all.alive() == sent);
        r.end_batch(std::exchange(others[0], {}));
        HOLDS(h.alive() == kept);
        HOLDS(all.alive() == sent);
        outer.end();
        HOLDS(!h.alive());
        for (batch_id& id : others)
            if (id) r.end_batch(std::exchange(id, {}));
        HOLDS(!all.alive());
    }

    /// A buffer that could not be brought back is as it was.
    static void derived(registry& r) {
        batch_scope        b{r};
        auto const         x = b.make_buffer<int>(4);
        std::array<int, 4> got{};
        x.write(0, std::array{1, 2, 3, 4});
        tenure::buffer<int> d;
        if (!attempt([&] {
                d = tenure::make_derived<int>(
                    4, [](std::span<int> out, std::span<int const> in) { out[0] = in[3]; }, x);
            })) {
            HOLDS(x.alive());
            return;
        }
        for (int round = 0; round < 2; ++round) {
            std::size_t const before = r.usage(b.id()).buffers;
            if (!attempt([&] { d.read(0, got); })) {
                HOLDS(r.usage(b.id()).buffers == before);
                failing_off([&] { d.read(0, got); });
            }
            HOLDS(got[0] == 4);
            attempt([&] { tenure::evict(d, tenure::recursive); });
        }
    }

    /// A deleter is moved into the batch, and that may fail.
    struct picky {
        picky() = default;
        picky(picky const&) {
            if (failing::due(failing::constructor)) throw refused();
        }
        void operator()(item* p) const { delete p; }
    };

    static void adopted(registry& r) {
        batch_scope outer{r};
        batch_scope inner;
        for (int i = 0; i < 5; ++i) {
            std::unique_ptr<item, picky> owned(new item);
            auto                         h     = handle<item>{};
            bool const                   taken = attempt([&] { h = inner.adopt(std::move(owned)); });
            HOLDS(taken == !owned);  // on failure the caller keeps it
            HOLDS(h.alive() == taken);
            if (taken && i % 2) attempt([&] { inner.keep(h); });
        }
        int        ran      = 0;
        bool const deferred = attempt([&] { inner.defer([&ran] { ++ran; }); });
        inner.end();
        HOLDS(ran == deferred);
    }

    static void large(registry& r) {
        batch_scope outer{r};
        batch_scope inner;
        struct big : item {
            char more[200'000]{};
        };
        struct untouched {
            untouched() {}  // more address space than a region has, and no memory
            char bytes[80'000'000];
        };
        for (int i = 0; i < 3; ++i) {
            handle<untouched> h;
            handle<big>       g;
            std::size_t const before = inner.usage().objects;
            if (attempt([&] { h = inner.make<untouched>(); })) attempt([&] { inner.keep(h); });
            if (attempt([&] { g = inner.make<big>(); }) && i) inner.free(g);
            HOLDS(inner.usage().objects <= before + 2);
        }
        inner.end();
        outer.end();
        r.trim();
    }

    static void resource(registry& r) {
        batch_scope b{r};
        attempt([&] { std::pmr::vector<item>(5, b.resource()); });
        attempt([&] { std::pmr::string(100'000, 'x', b.resource()); });
        std::pmr::vector<std::pmr::string> words{b.resource()};
        attempt([&] {
            for (int i = 0; i < 100; ++i) words.emplace_back("a word that is longer than a string holds within");
        });
    }

    static void by_id(registry& r) {
        batch_id id, below, manual;
        attempt([&] { id = r.new_batch({.name = "by id"}); });
        attempt([&] { below = r.new_batch({}, id); });
        attempt([&] { manual = r.new_batch({.cleanup = cleanup::manual}); });
        for (batch_id const current : {id, below, manual}) {
            if (!current) continue;
            batch_id const before = tenure::current_batch();
            if (!attempt([&] { r.set_current_batch(current); })) {
                HOLDS(tenure::current_batch() == before);
                continue;
            }
            attempt([] {
                for (int i = 0; i < 3; ++i) tenure::make<item>();
            });
            failing_off([&] { registry::global().set_current_batch(before); });
        }
        if (id) r.end_batch(id);
        if (below) HOLDS(r.status(below) == batch_status::done || !id);
        if (below && !id) r.end_batch(below);
        if (manual) {
            r.end_batch(manual);
            HOLDS(r.status(manual) == batch_status::retained);
            r.destroy_batch(manual);
        }
    }

    static void lanes(registry& r) {
        batch_scope               outer{r};
        batch_scope               b;
        std::vector<handle<item>> theirs;
        theirs.reserve(100);
        attempt([&] {
            auto l = b.lane();
            for (int i = 0; i < 6; ++i) theirs.push_back(l.make<item>());
            tenure::lane second = b.lane();
            second.make<item[]>(4);
        });
        attempt([&] {
            auto const guard = b.enter();
            for (int i = 0; i < 6; ++i) theirs.push_back(tenure::make<item>());
        });
        // Another thread makes, and this one gives away and frees what it made.
        attempt([&] {
            auto l = b.lane();
            theirs.clear();
            std::thread worker([&] {
                attempt([&] {
                    for (int i = 0; i < 6; ++i) theirs.push_back(l.make<item>());
                });
            });
            worker.join();
            if (theirs.empty()) return;
            auto const freed = theirs.back();
            b.free(freed);
            HOLDS(!freed.alive());
            theirs.pop_back();
            bool const kept = attempt([&] { b.keep(theirs); });
            for (auto const& h : theirs) HOLDS(h.owner() == (kept ? outer : b).id());
        });
    }

    static void limited(registry& r) {
        int         calls = 0;
        batch_scope b{
            r, {.limits = {.soft = 1000, .hard = 100'000, .on_soft = [&](batch_id, std::size_t) { ++calls; }}}};
        for (int i = 0; i < 12; ++i) {
            auto const h = b.try_make<item>();
            if (!h) HOLDS(h.error() == errc::memory_full && failing::now.failed);
        }
        HOLDS(b.usage().bytes <= 100'000);
        auto const full = [&](batch_scope& in) {
            std::size_t const used = in.usage().bytes;
            bool const        given =
                attempt([&] { in.set_limits({.hard = used, .on_soft = [&](batch_id, std::size_t) { ++calls; }}); });
            auto const more = in.try_make<item>();
            if (given) HOLDS(more.error() == errc::limit_exceeded);
            HOLDS(more || failing::now.failed || given);
        };
        full(b);
        b.end();
        batch_scope without{r};
        attempt([&] { without.make<item>(); });
        full(without);
    }

    /// Which are whole and where they were, whatever fails.
    static void buffers(registry& r) {
        auto const one = std::make_shared<tenure::heap_store>(), two = std::make_shared<tenure::heap_store>();
        struct finally {
            tenure::heap_store &a, &b;
            ~finally() { HOLDS(a.usage().blocks + b.usage().blocks == 0); }
        } const at_end{*one, *two};
        tenure::any_store const stores[]{one, two};
        batch_scope             outer{r};
        batch_scope             inner;
        auto const              held = [&] { return one->usage().blocks + two->usage().blocks; };
        for (int i = 0; i < 20; ++i) {
            std::size_t const   before = held(), objects = inner.usage().objects;
            tenure::buffer<int> x;
            if (!attempt([&] { x = inner.make_buffer<int>(1000, stores[i % 2]); })) {
                HOLDS(held() == before && inner.usage().objects == objects);
                continue;
            }
            std::array<int, 1000> content{}, again{};
            content.fill(i);
            x.write(0, content);
            if (i % 4 == 1) {
                bool const moved = attempt([&] { x.move_to(stores[0]); });
                HOLDS(tenure::any_store(x.stores().front()) == stores[!moved]);
            }
            x.read(0, again);
            HOLDS(content == again);
            HOLDS(held() == before + 1);
            if (i % 3 == 0) {
                bool const kept = attempt([&] { inner.keep(x); });
                HOLDS(x.owner() == (kept ? outer : inner).id());
            } else if (i % 3 == 1) {
                inner.free(x);
                HOLDS(held() == before);
            }
            HOLDS(inner.usage().buffers + outer.usage().buffers == held());
        }
        attempt([&] { HOLDS(inner.try_make_buffer<int>(1, stores[0]).has_value() || failing::now.failed); });
    }

    /// A buffer is made with its contents, or replaced by a longer one, or nothing was done; memory made elsewhere
    /// is ended once by who has it.
    static void elements(registry& r) {
        auto const            store = std::make_shared<tenure::heap_store>();
        std::array<int, 1000> memory{}, content{}, again{};
        content.fill(7);
        int adopted = 0, ended = 0;
        {
            batch_scope b{r};
            for (std::size_t i = 0; i < 20; ++i) {
                std::size_t const   objects = b.usage().objects;
                tenure::buffer<int> x, y, z;
                if (attempt([&] { x = b.make_buffer(content, store); })) {
                    bool const resized = attempt([&] { y = x.resize(2000); });
                    HOLDS(x.alive() == !resized && y.alive() == resized);
                    (resized ? y : x).read(0, again);
                    HOLDS(again == content);
                }
                HOLDS(b.usage().objects == objects + x.alive() + y.alive());
                HOLDS(store->usage().blocks == b.usage().objects - static_cast<std::size_t>(adopted));
                bool const taken = attempt([&] { z = b.adopt_buffer(std::span(memory), [&](int*) { ++ended; }); });
                HOLDS(z.alive() == taken && ended == 0);
                adopted += taken;
                HOLDS(b.usage().buffers == store->usage().blocks + static_cast<std::size_t>(adopted));
            }
        }
        HOLDS(ended == adopted);
        HOLDS(store->usage().blocks == 0);
    }

    static void named_store(registry& r) {
        auto const store = std::make_shared<tenure::heap_store>();
        {
            batch_scope  outer{r};
            handle<item> kept;
            attempt([&] {
                batch_scope inner{r, {.store = store}};
                for (int i = 0; i < 3; ++i) {
                    attempt([&] { inner.make<item>(); });
                    attempt([&] { inner.make<std::array<char, 200'000>>(); });
                    attempt([&] {
                        auto const h = inner.make<item>();
                        inner.keep(h);
                        kept = h;
                    });
                    attempt([&] { inner.make_buffer<int>(1000); });
                }
            });
            HOLDS(kept.alive() == (kept != handle<item>{}));
            if (kept.alive()) outer.free(kept);
        }
        HOLDS(store->usage().blocks == 0);
        HOLDS(store.use_count() == 1);
    }

    /// More batches at once than there are records in stock.
    static void crowd(registry& r) {
        batch_id const before = tenure::current_batch();
        attempt([&] { nest(r, 200); });
        HOLDS(tenure::current_batch() == before);
    }
    static void nest(registry& r, int more) {
        batch_scope b{r};
        attempt([] { tenure::make<int>(1); });
        if (more) attempt([&] { nest(r, more - 1); });
    }

    static void looked_at(registry& r) {
        batch_scope b{r, {.name = "looked at"}};
        b.make<item>();
        std::string const text = r.snapshot().to_text();
        HOLDS(text.find("looked at") != text.npos);
        HOLDS(r.leak_report().empty());
    }

    /// The registry's destructor has something to say and to free, and cannot throw.
    static void left_behind(registry& r) {
        attempt([&] {
            batch_scope b{r, {.name = "left behind"}};
            b.make<item>();
            b.detach();
        });
    }

    template <class F>
    static void failing_off(F f) {
        unsigned const kinds = failing::now.kinds.exchange(0);
        f();
        failing::now.kinds = kinds;
    }
};

/// What a run tells its parent.
struct verdict {
    bool failed;  ///< something was made to fail
    long blocks;  ///< of the heap, left after a clean run
    long mapped;  ///< bytes, likewise
    long in_stock;
};

/// What tenure keeps for ever, because handles and ids refer to it for ever, it must find again.
long in_stock() {
    namespace detail = tenure::detail;
    long n           = 0;
    for (auto* c = detail::cells.free; c; c = c->next_free) ++n;
    for (auto* l = detail::process.free_lanes; l; l = l->next) ++n;
    for (auto* b : {detail::process.free_records, detail::this_thread.records})
        for (; b; b = b->next_free) ++n;
    return n;
}

/// A child process: one run with the nth of these kinds failing, then a clean one, which must find all in order.
verdict child(unsigned kinds, long nth) {
    long const blocks = failing::now.blocks, mapped = failing::now.mapped;
    scenario(kinds, nth).run();
    failing::disarm();
    verdict v{failing::now.failed, 0, 0, 0};
    HOLDS(item::none_left());
    HOLDS(tenure::current_batch() == registry::global().root());
    check_books(registry::global());
    for (int i = 0; i < 2; ++i) scenario(0, 0).run();
    HOLDS(item::none_left());
    v.blocks   = failing::now.blocks - blocks;
    v.mapped   = failing::now.mapped - mapped;
    v.in_stock = in_stock();
    return v;
}

struct outcome {
    bool    ok;
    verdict v;
};

outcome in_a_process(unsigned kinds, long nth) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    ::pid_t const pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        for (int const s : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGTERM}) std::signal(s, SIG_DFL);  // doctest's own
        ::close(ends[0]);
        verdict const v = child(kinds, nth);
#if TENURE_ASAN
        if (__lsan_do_recoverable_leak_check()) broken("leaked", __LINE__);
#endif
        std::_Exit(::write(ends[1], &v, sizeof v) == sizeof v ? 0 : 1);
    }
    ::close(ends[1]);
    outcome    out{};
    bool const said = ::read(ends[0], &out.v, sizeof out.v) == sizeof out.v;
    ::close(ends[0]);
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    out.ok = said && status == 0;
    return out;
}

void check_all(unsigned kinds) {
    outcome const clean = in_a_process(0, 0);
    REQUIRE(clean.ok);
    REQUIRE_FALSE(clean.v.failed);
    long n = 1;
    for (;; n += TENURE_SANITIZED ? 3 : 1) {
        CAPTURE(n);
        outcome const o = in_a_process(kinds, n);
        CHECK(o.ok);
        if (!o.ok) continue;
        CHECK(o.v.blocks == clean.v.blocks);
        CHECK(o.v.mapped == clean.v.mapped);
        CHECK(o.v.in_stock == clean.v.in_stock);
        if (!o.v.failed) break;
    }
    MESSAGE((n - 1) << " places to fail");
    CHECK(n > 5);
}

}  // namespace

TEST_SUITE("before main") {
    TEST_CASE("no address space, in this process" * doctest::skip()) {
        REQUIRE(failing::now.failed);
        CHECK_FALSE(handle<int>{}.alive());
        auto const refuses = [](auto f) {
            try {
                f();
            } catch (tenure::error const& e) {
                CHECK(e.code() == errc::memory_full);
                CHECK(std::string(e.what()).find("address space") != std::string::npos);
                return;
            }
            FAIL_CHECK("nothing was thrown");
        };
        refuses([] { registry r; });
        refuses([] { registry::global(); });
        refuses([] { batch_scope b; });
        refuses([] { tenure::make<int>(1); });
        CHECK(failing::now.mapped == 0);
    }

    TEST_CASE("no address space") {
        for (char const* const nth : {"1", "2", "3"}) {
            CAPTURE(nth);
            ::pid_t const pid = ::fork();
            REQUIRE(pid >= 0);
            if (pid == 0) {
                ::setenv("TENURE_TEST_FAIL_MAPPING", nth, 1);
                ::execl("/proc/self/exe", "faults_test", "--no-skip", "--minimal", "--test-case=*in this process",
                        nullptr);
                std::_Exit(2);
            }
            int status = 0;
            REQUIRE(::waitpid(pid, &status, 0) == pid);
            CHECK(status == 0);
        }
    }
}

TEST_SUITE("failure at each") {
#if FAILING_ALLOCATIONS
    TEST_CASE("allocation") { check_all(failing::allocation); }
#else
    TEST_CASE("allocation") { MESSAGE("skipped: ThreadSanitizer's operator new cannot be replaced"); }
#endif
    TEST_CASE("mapping") { check_all(failing::mapping); }
    TEST_CASE("constructor") { check_all(failing::constructor); }
}

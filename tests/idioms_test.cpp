// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// What people who come from raw pointers, std::shared_ptr and std::vector write without looking anything up.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "throws.hpp"

namespace {

using tenure::batch_scope;
using tenure::buffer;
using tenure::errc;
using tenure::handle;
using tenure::make;

/// A syntax tree, as one with raw pointers would be.
struct node : tenure::enable_handle_from_this<node> {
    explicit node(int v, handle<node> l = nullptr, handle<node> r = nullptr) : value(v), left(l), right(r) {}
    node(node const&) = default;
    virtual ~node()   = default;

    handle<node> me() { return handle_from_this(); }

    int          value;
    handle<node> left, right;
};

struct padding {
    virtual ~padding() = default;
    std::int64_t filler[3]{};
};
struct leaf final : padding, node {  // its node is not at its beginning
    using node::node;
};

int sum(handle<node> n) { return n ? n->value + sum(n->left) + sum(n->right) : 0; }

handle<node> find(handle<node> n, int v) {
    if (!n) return nullptr;
    if (n->value == v) return n;
    if (auto const h = find(n->left, v); h != nullptr) return h;
    return find(n->right, v);
}

struct no_default {
    explicit no_default(int v) : value(v) {}
    int value;
};

struct counts_down {
    int* left;
    ~counts_down() { --*left; }
};

}  // namespace

static_assert(!std::convertible_to<handle<int>, bool>, "a handle is no number");
static_assert(!std::convertible_to<int, handle<int>> && !std::convertible_to<int*, handle<int>>);
static_assert(sizeof(handle<int>) == 16 && std::is_trivially_copyable_v<handle<int>>);
static_assert(!std::convertible_to<handle<node>, handle<leaf>>, "down only by a cast");

TEST_SUITE("idioms") {
    TEST_CASE_FIXTURE(accounting, "handles: null pointers' tests, and a tree that is written with them") {
        batch_scope b;
        auto const  root = b.make<node>(1, b.make<node>(2), b.make<node>(3, b.make<node>(4)));
        CHECK(sum(root) == 10);
        CHECK(find(root, 4)->value == 4);
        CHECK(find(root, 5) == nullptr);

        handle<int> none;
        CHECK(none == nullptr);
        CHECK(nullptr == none);
        CHECK(!none);
        CHECK_FALSE(static_cast<bool>(none));
        none = b.make<int>(1);
        CHECK(none != nullptr);
        CHECK(none);
        none = nullptr;
        CHECK(none == handle<int>());

        handle<int[]> array = nullptr;
        CHECK(!array);
        CHECK(array == nullptr);
        CHECK(array.empty());
        array = b.make<int[]>(0);
        CHECK(array);
        CHECK(array.empty());

        buffer<int> bytes = nullptr;
        CHECK(!bytes);
        CHECK(bytes == nullptr);
        bytes = b.make_buffer<int>(4);
        CHECK(bytes);
    }

    TEST_CASE_FIXTURE(accounting, "a stale handle is not null: code that asks only this is told when it goes on") {
        batch_scope b;
        auto const  h = b.make<int>(1);
        b.free(h);
        CHECK(h);
        CHECK(h != nullptr);
        CHECK_FALSE(h.alive());
        check_throws(errc::stale_handle, {"access through a handle"}, [&] { (void)*h; });
        check_throws(errc::stale_handle, {"access through a null handle<int>, which was given no object"},
                     [] { (void)*handle<int>(); });
    }

    TEST_CASE_FIXTURE(accounting, "arrays: of copies, of a list, of what has no default constructor") {
        int left = 0;
        {
            batch_scope b;
            auto const  sevens = b.make<int[]>(3, 7);
            CHECK(std::vector<int>(sevens.begin(), sevens.end()) == std::vector{7, 7, 7});
            auto const listed = b.make<std::string[]>({"a", "bc", "def"});
            CHECK(listed.size() == 3);
            CHECK(listed[2] == "def");
            CHECK(b.make<no_default[]>(2, no_default(4))[1].value == 4);
            CHECK(b.make<double[]>(2, 1)[1] == 1.0);  // from what converts
            CHECK(b.make<int const[]>({1, 2})[1] == 2);
            CHECK(b.make<int[]>({}).empty());
            left               = 5;
            auto const counted = b.make<counts_down[]>(5, counts_down{&left});
            CHECK(left == 4);  // the one that was copied
            left = 5;
            CHECK(counted.size() == 5);
        }
        CHECK(left == 0);
    }

    TEST_CASE_FIXTURE(accounting, "arrays: everything that makes takes them") {
        batch_scope         b;
        tenure::batch_owner owner{{.name = "owner"}};
        CHECK(make<int[]>({1, 2, 3})[2] == 3);
        CHECK(make<int[]>(2, 5)[1] == 5);
        CHECK((*tenure::try_make<int[]>({1, 2}))[1] == 2);
        CHECK((*b.try_make<int[]>({1, 2}))[1] == 2);
        CHECK((*b.try_make<int[]>(2, 9))[1] == 9);
        CHECK(owner.make<int[]>({4, 5})[0] == 4);
        CHECK(owner.make<int[]>(1, 6)[0] == 6);
        tenure::lane lane = b.lane();
        CHECK(lane.make<int[]>({4, 5})[0] == 4);
        CHECK((*lane.try_make<int[]>({4, 5}))[1] == 5);
    }

    TEST_CASE_FIXTURE(accounting, "arrays: an element that cannot be copied leaves none behind") {
        struct copied {
            std::string text;
            explicit copied(std::string t) : text(std::move(t)) {}
            copied(copied const& from) : text(from.text) {
                if (text == "no") throw std::runtime_error("no copy");
            }
        };
        batch_scope b;
        CHECK_THROWS_AS(b.make<copied[]>({copied("yes, and long enough to be allocated"), copied("no")}),
                        std::runtime_error);
        CHECK(b.usage().objects == 0);
    }

    TEST_CASE_FIXTURE(accounting, "arrays: a negative size says so") {
        batch_scope b("b");
        for (auto const& call : std::vector<std::function<void()>>{
                 [&] { b.make<int[]>(-1); },
                 [&] { b.make<int[]>(-1, 7); },
                 [&] { b.make<std::string[]>(-1L); },
                 [&] { b.make_for_overwrite<int[]>(-1); },
             })
            check_throws(errc::memory_full, {"batch 'b'", "a negative number of them?"}, call);
        CHECK(b.try_make<int[]>(-1).error() == errc::memory_full);
        CHECK(b.usage().objects == 0);
    }

    TEST_CASE_FIXTURE(accounting, "arrays: range-for checks the handle first") {
        batch_scope b;
        auto const  h = b.make<int[]>(4, 2);
        for (int& i : h) i += 1;
        CHECK(std::accumulate(h.begin(), h.end(), 0) == 12);
        b.free(h);
        check_throws(errc::stale_handle, {"access through a handle"}, [&] {
            for (int i : h) FAIL("reached " << i);
        });
        for (int i : handle<int[]>(b.make<int[]>(0))) FAIL("reached " << i);
    }

    TEST_CASE_FIXTURE(accounting, "arrays of handles are objects, and so one thing to keep") {
        batch_scope           outer;
        handle<handle<int>[]> kept, given;
        handle<int>           element;
        {
            batch_scope inner;
            element = inner.make<int>(1);
            kept    = inner.keep(inner.make<handle<int>[]>(2, element));
            given   = tenure::transfer_ownership(inner.make<handle<int>[]>({element}), outer);
        }
        CHECK(kept.alive());
        CHECK(given.alive());
        CHECK(given.owner() == outer.id());
        CHECK_FALSE(element.alive());
    }

    TEST_CASE_FIXTURE(accounting, "casts: up, down, across, and away from const") {
        batch_scope        b;
        handle<leaf> const l = b.make<leaf>(5);
        handle<node> const n = l;
        CHECK(n.unchecked() != static_cast<void*>(l.unchecked()));  // not at the beginning

        auto const down = tenure::static_handle_cast<leaf>(n);
        CHECK(down == l);
        CHECK(tenure::dynamic_handle_cast<leaf>(n) == l);
        handle<padding> const across = tenure::dynamic_handle_cast<padding>(n);
        CHECK(across == handle<padding>(l));
        CHECK(tenure::static_handle_cast<leaf>(across) == l);
        CHECK(tenure::dynamic_handle_cast<leaf>(handle<node>(b.make<node>(1))) == nullptr);
        CHECK(tenure::static_handle_cast<node>(handle<leaf>()) == nullptr);
        CHECK(tenure::dynamic_handle_cast<leaf>(handle<node>()) == nullptr);

        handle<node const> const constant = n;
        CHECK(tenure::const_handle_cast<node>(constant) == n);

        b.free(tenure::static_handle_cast<padding>(l));  // any of them names the whole object
        CHECK_FALSE(n.alive());
        CHECK_FALSE(tenure::static_handle_cast<leaf>(n).alive());
        check_throws(errc::stale_handle, {}, [&] { (void)tenure::dynamic_handle_cast<leaf>(n); });
    }

    TEST_CASE_FIXTURE(accounting, "casts: of what was adopted") {
        batch_scope        b;
        handle<node> const n = b.adopt(std::unique_ptr<node>(new leaf(7)));
        auto const         l = tenure::dynamic_handle_cast<leaf>(n);
        CHECK(l->value == 7);
        CHECK(handle<node>(l) == n);
        b.free(l);
        CHECK_FALSE(n.alive());
        CHECK_FALSE(l.alive());
    }

    TEST_CASE_FIXTURE(accounting, "handle_from_this: of what a batch owns, by whichever handle it was made") {
        batch_scope        b;
        handle<node> const n = b.make<node>(1);
        CHECK(n->me() == n);
        handle<leaf> const l = b.make<leaf>(2);
        CHECK(l->me() == handle<node>(l));
        CHECK(std::as_const(*l).handle_from_this() == handle<node const>(l));
        handle<node const> const c = b.make<node const>(4);
        CHECK(c->handle_from_this() == c);
        handle<node> const a = b.adopt(new node(3));
        CHECK(a->me() == a);
        CHECK((*b.try_make<node>(3))->me()->value == 3);

        node const copy = *n;
        CHECK(copy.handle_from_this() == nullptr);
        *l = leaf(9);
        CHECK(l->me() == handle<node>(l));  // assigned to, it is still the same object
        CHECK(b.make<node[]>({node(1), node(2)})[1].me() == nullptr);

        struct in_constructor : tenure::enable_handle_from_this<in_constructor> {
            bool was_null = handle_from_this() == nullptr;
        };
        CHECK(b.make<in_constructor>()->was_null);

        handle<node> kept;
        {
            batch_scope inner;
            kept = inner.make<leaf>(6)->me();
            inner.keep(kept);
        }
        CHECK(kept->me() == kept);
        handle<node> const gone = n->me();
        b.free(n);
        CHECK_FALSE(gone.alive());
    }

    TEST_CASE_FIXTURE(accounting, "free functions do what a scope does, in the batch that is current") {
        std::string              said;
        batch_scope              outer;
        handle<int>              one, two, three, freed;
        std::vector<handle<int>> many;
        {
            batch_scope inner;
            tenure::defer([&] { said += 'd'; });
            auto const adopted = tenure::adopt(new int(3), [&](int* p) {
                said += 'a';
                delete p;
            });
            CHECK(*adopted == 3);
            CHECK(adopted.owner() == inner.id());
            CHECK(*tenure::adopt(std::make_unique<int>(4)) == 4);
            one                  = tenure::keep(make<int>(1));
            std::tie(two, three) = tenure::keep(make<int>(2), make<int>(3));
            many                 = tenure::keep(std::vector{make<int>(4), make<int>(5)});
            CHECK(tenure::try_keep(std::optional(make<int>(6))));
            freed = make<int>(7);
            tenure::free(freed);
            CHECK_FALSE(freed.alive());
            CHECK(tenure::try_free(make<int>(8)));
            CHECK(tenure::try_free(freed).error() == errc::stale_handle);
            CHECK(tenure::try_keep(std::vector{freed}).error() == errc::stale_handle);
            check_throws(errc::stale_handle, {"free in batch"}, [&] { tenure::free(freed); });
            check_throws(errc::not_owner, {}, [&] { tenure::free(outer.make<int>(1)); });
        }
        CHECK(said == "ad");
        CHECK(*one + *two + *three + *many[0] + *many[1] == 15);
        CHECK(one.owner() == outer.id());
    }

    TEST_CASE_FIXTURE(accounting, "the current batch's memory, without a scope at hand") {
        batch_scope outer;
        auto const  fill = [] {
            std::pmr::vector<int> v(100, 1, tenure::pmr());
            return v.size() +
                   std::pmr::string("a string that is longer than any buffer within", tenure::current_resource())
                       .size();
        };
        auto const before = outer.usage().bytes;
        {
            batch_scope inner;
            CHECK(tenure::current_resource() == inner.resource());
            CHECK(fill() == 146);
            CHECK(inner.usage().peak >= 400);
        }
        CHECK(outer.usage().bytes == before);
        CHECK(tenure::current_resource() == outer.resource());
        tenure::batch_owner owner{{.name = "owner"}};
        auto                in = owner.enter();
        CHECK(tenure::current_resource() == in.resource());
    }

    TEST_CASE_FIXTURE(accounting, "a scope stands for its id") {
        batch_scope         outer;
        tenure::batch_owner owner{{.name = "owner"}};
        batch_scope         inner;
        auto const          h = inner.make<int>(1);
        tenure::transfer_ownership(h, outer);
        CHECK(h.owner() == outer);
        CHECK(*tenure::keep_to(owner, h) == 1);
        auto& registry = tenure::registry::global();
        CHECK(registry.status(inner) == tenure::batch_status::active);
        registry.share(h, owner);
        inner.share(inner.make<int>(2), outer);
        auto const below = registry.new_batch({}, owner);
        registry.end_batch(below);
    }
}

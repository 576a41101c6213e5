// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Each adaptor over each base store keeps the contract.

#include <filesystem>
#include <memory>

#include <doctest/doctest.h>

#include <tenure/device/scheduler/placed_store.hpp>
#include <tenure/store/aligned.hpp>
#include <tenure/store/conformance.hpp>
#include <tenure/store/counted.hpp>
#include <tenure/store/dedup.hpp>
#include <tenure/store/durable_mmap.hpp>
#include <tenure/store/fallback.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/store/limited.hpp>
#include <tenure/store/mmap.hpp>
#include <tenure/store/retry.hpp>
#include <tenure/store/segregated.hpp>
#include <tenure/store/tiered.hpp>

#include "stores/plain_store.hpp"
#include "temporary.hpp"

namespace {

using namespace tenure;

constexpr conformance_options less{.max_bytes = 1 << 18, .free_count = 500, .threads = 3, .steps = 40};
constexpr conformance_options more{.max_bytes = 4 << 20, .free_count = 10'000, .threads = 8, .steps = 500};
constexpr conformance_options amount = TENURE_SANITIZED ? less : more;

void check_ok(conformance_report const& r) {
    INFO(r.to_text());
    CHECK(r.ok());
}

/// Base stores: ours, and plain ones that can do nothing or everything.
struct heap {
    auto operator()() const { return std::make_shared<heap_store>(); }
};
struct plain {
    auto operator()() const { return std::make_shared<plain_store<>>(); }
};
struct able {
    auto operator()() const {
        return std::make_shared<plain_store<{.addressable = true, .durable = true, .copyable = true}>>(
            std::make_shared<plain_disk>());
    }
};
struct knowing {
    auto operator()() const { return std::make_shared<plain_store<{.batched = true}>>(); }
};
struct mapped {
    auto operator()() const { return std::make_shared<mmap_store>(std::filesystem::temp_directory_path()); }
};
struct erased {
    auto operator()() const { return std::make_shared<any_store>(std::make_shared<heap_store>()); }
};
struct kept {
    struct files {
        temporary_directory where;
        any_store           store{mmap_store::open(where.path())};
    };
    auto operator()() const {
        auto const all = std::make_shared<files>();
        return std::shared_ptr<any_store>(all, &all->store);
    }
};

template <class Base>
using store_of = typename decltype(Base{}())::element_type;

}  // namespace

TEST_CASE_TEMPLATE("store_adaptor", Base, heap, mapped, able, erased, kept) {
    check_ok(check_store([] { return std::make_shared<store_adaptor<store_of<Base>>>(Base{}()); }, amount));
}

TEST_CASE_TEMPLATE("limited_store", Base, heap, mapped, plain, able, erased, kept) {
    check_ok(check_store([] { return std::make_shared<limited_store<store_of<Base>>>(Base{}(), store_limits{}); },
                         amount));
}

TEST_CASE_TEMPLATE("placed_store", Base, heap, able, knowing) {
    check_ok(check_store(
        [] {
            return std::make_shared<placed_store<store_of<Base>>>(Base{}(), std::make_shared<job_meter>(), "job");
        },
        amount));
}

TEST_CASE_TEMPLATE("limited_store, with a limit", Base, heap, mapped, plain) {
    check_ok(check_store(
        [] {
            return std::make_shared<limited_store<store_of<Base>>>(
                Base{}(), store_limits{.bytes = 8 << 20, .blocks = 10'000});
        },
        amount));
}

TEST_CASE_TEMPLATE("counted_store", Base, heap, mapped, plain, able, erased, kept) {
    check_ok(check_store([] { return std::make_shared<counted_store<store_of<Base>>>(Base{}()); }, amount));
}

TEST_CASE_TEMPLATE("tiered_store", Base, heap, mapped, plain, able, erased, kept) {
    check_ok(check_store(
        [] { return std::make_shared<tiered_store<heap_store, store_of<Base>>>(heap{}(), Base{}()); }, amount));
}

TEST_CASE_TEMPLATE("tiered_store, all the time moving", Base, heap, mapped, plain, erased) {
    check_ok(check_store(
        [] {
            return std::make_shared<tiered_store<store_of<Base>, store_of<Base>>>(
                Base{}(), Base{}(), tiered_options{.fast_bytes = 10'000});
        },
        amount));
}

TEST_CASE_TEMPLATE("tiered_store, over one of few blocks", Base, heap, mapped, plain) {
    check_ok(check_store(
        [] {
            return std::make_shared<tiered_store<limited_store<store_of<Base>>, store_of<Base>>>(
                std::make_shared<limited_store<store_of<Base>>>(Base{}(), store_limits{.blocks = 5}), Base{}());
        },
        amount));
}

TEST_CASE_TEMPLATE("dedup_store", Base, heap, mapped, plain, able, erased, kept) {
    check_ok(check_store([] { return std::make_shared<dedup_store<store_of<Base>>>(Base{}()); }, amount));
}

TEST_CASE_TEMPLATE("aligned_store", Base, heap, mapped, plain, able, erased, kept) {
    check_ok(check_store([] { return std::make_shared<aligned_store<store_of<Base>>>(Base{}(), 64); }, amount));
}

TEST_CASE_TEMPLATE("retry_store", Base, heap, mapped, plain, able, erased, kept) {
    check_ok(check_store(
        [] { return std::make_shared<retry_store<store_of<Base>>>(Base{}(), [](std::size_t) { return true; }); },
        amount));
}

TEST_CASE_TEMPLATE("fallback_store, over a first one of few blocks", Base, heap, mapped, plain, able, erased) {
    using limited = limited_store<store_of<Base>>;
    check_ok(check_store(
        [] {
            return std::make_shared<fallback_store<limited, store_of<Base>>>(
                std::make_shared<limited>(Base{}(), store_limits{.blocks = 5}), Base{}());
        },
        amount));
}

TEST_CASE("fallback_store, both of known capacity") {
    check_ok(check_store(
        [] {
            auto const small = std::make_shared<heap_store>(heap_options{.capacity = 1 << 20});
            auto const large = std::make_shared<heap_store>(heap_options{.capacity = 8 << 20});
            return std::make_shared<fallback_store<heap_store, heap_store>>(small, large);
        },
        amount));
}

TEST_CASE_TEMPLATE("segregated_store", Base, heap, mapped, plain, able, erased) {
    check_ok(check_store(
        [] { return std::make_shared<segregated_store<heap_store, store_of<Base>>>(heap{}(), Base{}(), 50); },
        amount));
}

TEST_CASE("a tower of them") {
    check_ok(check_store(
        [] {
            auto const fast = std::make_shared<limited_store<heap_store>>(heap{}(), store_limits{.bytes = 50'000});
            auto const slow = std::make_shared<dedup_store<counted_store<heap_store>>>(
                std::make_shared<counted_store<heap_store>>(heap{}()));
            using tiers = tiered_store<limited_store<heap_store>, dedup_store<counted_store<heap_store>>>;
            return std::make_shared<counted_store<tiers>>(std::make_shared<tiers>(fast, slow));
        },
        amount));
    check_ok(check_store(
        [] {
            using aligned    = aligned_store<heap_store>;
            using segregated = segregated_store<aligned, heap_store>;
            using limited    = limited_store<segregated>;
            using fallback   = fallback_store<limited, heap_store>;
            using retried    = retry_store<fallback>;
            auto const sizes =
                std::make_shared<segregated>(std::make_shared<aligned>(heap{}(), 256), heap{}(), 100);
            auto const some = std::make_shared<limited>(sizes, store_limits{.bytes = 50'000});
            auto const all  = std::make_shared<fallback>(some, heap{}());
            return std::make_shared<counted_store<retried>>(
                std::make_shared<retried>(all, [](std::size_t) { return false; }));
        },
        amount));
}

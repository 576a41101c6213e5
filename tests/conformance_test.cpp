// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// The suite accepts what is right.

#include <memory>
#include <utility>

#include <doctest/doctest.h>

#include <tenure/store/conformance.hpp>

#include "stores/plain_store.hpp"

namespace {

constexpr tenure::conformance_options less{.max_bytes = 1 << 20, .free_count = 2'000, .threads = 4, .steps = 300};
constexpr tenure::conformance_options amount = TENURE_SANITIZED ? less : tenure::conformance_options{};

void check_ok(tenure::conformance_report const& r) {
    MESSAGE(r.to_text());
    CHECK(r.ok());
}

}  // namespace

TEST_CASE("a plain store passes") {
    check_ok(tenure::check_store([] { return std::make_shared<plain_store<>>(); }, amount));
}

TEST_CASE("one of limited capacity passes") {
    check_ok(tenure::check_store([] { return std::make_shared<plain_store<>>(1 << 20); }, amount));
}

TEST_CASE("one in private anonymous memory passes") {
    check_ok(tenure::check_store(
        [] { return std::make_shared<plain_store<{.addressable = true, .anonymous = true}>>(); }, amount));
}

TEST_CASE("one with every capability passes") {
    using store = plain_store<{.addressable = true, .durable = true, .copyable = true}>;
    check_ok(tenure::check_store([] { return std::make_shared<store>(std::make_shared<plain_disk>()); },
                                 [](std::shared_ptr<store> s) {
                                     auto const disk = s->disk();
                                     s.reset();
                                     return std::make_shared<store>(disk);
                                 },
                                 amount));
}

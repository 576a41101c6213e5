// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// fwd.hpp alone is enough to declare functions with; they can be defined and called once the real headers are
// there.

#include <tenure/fwd.hpp>

namespace {

tenure::handle<int>        three(tenure::batch_scope& scope);
tenure::handle<int[]>      row(tenure::lane& of, int first);
tenure::buffer<int>        stored(tenure::batch_owner& owner, tenure::any_store const& where);
tenure::frozen_buffer<int> read_only(tenure::buffer<int> const& from);
tenure::pinned<int>        held(tenure::handle<int> what);
tenure::batch_id           opened(tenure::registry& in, tenure::batch_options const& how);
tenure::batch_options      in_background(tenure::cleanup, tenure::on_exception, tenure::residency);
tenure::batch_status       status(tenure::registry const& in, tenure::batch_id id);
tenure::batch_report       ended(tenure::batch_scope& scope);
tenure::snapshot           seen(tenure::registry const& in);
bool                       is(tenure::error const& e, tenure::errc what);

}  // namespace

#include <memory>
#include <string>
#include <tuple>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

#include "accounting.hpp"

namespace {

tenure::handle<int> three(tenure::batch_scope& scope) { return scope.make<int>(3); }

tenure::handle<int[]> row(tenure::lane& of, int first) {
    auto const made = of.make<int[]>(10);
    made[0]         = first;
    return made;
}

tenure::buffer<int> stored(tenure::batch_owner& owner, tenure::any_store const& where) {
    return owner.make_buffer<int>(4, where);
}

tenure::frozen_buffer<int> read_only(tenure::buffer<int> const& from) { return frozen(from); }

tenure::pinned<int> held(tenure::handle<int> what) { return tenure::pin(what); }

tenure::batch_id opened(tenure::registry& in, tenure::batch_options const& how) { return in.new_batch(how); }

tenure::batch_options in_background(tenure::cleanup c, tenure::on_exception e, tenure::residency r) {
    return {
        .name = "fwd", .cleanup = c, .reclaim = tenure::reclamation::background, .on_exception = e, .residency = r};
}

tenure::batch_status status(tenure::registry const& in, tenure::batch_id id) { return in.status(id); }

tenure::batch_report ended(tenure::batch_scope& scope) { return scope.end(); }

tenure::snapshot seen(tenure::registry const& in) { return in.snapshot(); }

bool is(tenure::error const& e, tenure::errc what) { return e.code() == what; }

TEST_SUITE("fwd") {
    TEST_CASE("objects, by functions whose declarations saw fwd.hpp only") {
        tenure::registry    all;
        tenure::batch_scope scope(all);
        auto const          h = three(scope);
        CHECK(*held(h) == 3);
        {
            tenure::lane beside = scope.lane();
            CHECK(row(beside, 5)[0] == 5);
        }
        CHECK(ended(scope).made == 2);
        try {
            std::ignore = *h;
            FAIL("not stale");
        } catch (tenure::error const& e) {
            CHECK(is(e, tenure::errc::stale_handle));
        }
    }

    TEST_CASE("batches and buffers, likewise") {
        tenure::registry all;
        auto const       how =
            in_background(tenure::cleanup::manual, tenure::on_exception::end, tenure::residency::memory);
        auto const id = opened(all, how);
        CHECK(status(all, id) == tenure::batch_status::active);
        CHECK(seen(all).to_text().find("fwd") != std::string::npos);
        all.destroy_batch(id);

        tenure::batch_owner owner(all);
        CHECK(read_only(stored(owner, std::make_shared<tenure::heap_store>())).size() == 4);
    }
}

}  // namespace

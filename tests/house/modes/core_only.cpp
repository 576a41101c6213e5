// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <chrono>

#include <tenure/batch_scope.hpp>
#include <tenure/registry.hpp>

template <class Call>
bool lacks_a_feature(Call call) {
    try {
        call();
    } catch (tenure::error const& e) {
        return e.code() == tenure::errc::no_feature;
    }
    return false;
}

/// Options whose features the program does not have are refused, and all else works.
int main() {
    using namespace std::chrono_literals;

    tenure::registry r;
    auto const       open = [&](tenure::batch_options const& options) {
        return lacks_a_feature([&] { r.end_batch(r.new_batch(options)); });
    };
    bool const refused =
        lacks_a_feature([] { tenure::registry const limited({.memory_limit = {.high = 1 << 20}}); }) &&
        open({.timeout = 1s}) && open({.residency = tenure::residency::automatic}) &&
        open({.reclaim = tenure::reclamation::background});

    tenure::batch_scope above(r, {.limits = {.hard = 1 << 20}});
    tenure::handle<int> kept;
    {
        tenure::batch_scope below;
        kept = below.keep(below.make<int>(1));
    }
    return refused && *kept == 1 && r.leak_report().empty() ? 0 : 1;
}

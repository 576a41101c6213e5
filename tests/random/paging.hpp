// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <tenure/tenure.hpp>

#include "dice.hpp"
#include "model.hpp"
#include "program.hpp"

/// Batches go out to the page file and come back, by themselves and by request. Nothing else may notice, so the
/// model knows nothing of it.

inline tenure::residency some_residency(command const& c) {
    return dice::mix(c.c) % 3 ? tenure::residency::memory : tenure::residency::paged_when_left;
}

/// After one command in four. Returns what should not have been said, or nothing.
inline std::string page_something(tenure::registry& r, model::world const& world, command const& c) {
    std::uint64_t const luck   = dice::mix(c.a ^ std::uint64_t{c.b} << 32);
    auto const&         living = world.living();
    if (luck % 4 || living.empty()) return {};
    tenure::batch_id const id = living[luck / 8 % living.size()]->id;
    try {
        if (luck & 4) r.page_out(id);
        else r.page_in(id);
        tenure::batch_usage const now   = r.usage(id);
        auto const                wrong = [&](char const* what) {
            return std::string(what) + " of #" + std::to_string(id.value) + ": " + std::to_string(now.paged_out) +
                   " of " + std::to_string(now.retained);
        };
        if (luck & 4 && now.paged_out > now.retained) return wrong("more is out than there is");
        if (!(luck & 4) && now.paged_out) return wrong("some is still out");
    } catch (tenure::error const& e) {
        using tenure::errc;
        for (errc const fine : {errc::batch_in_use, errc::batch_ended})
            if (e.code() == fine) return {};
        return e.what();
    }
    return {};
}

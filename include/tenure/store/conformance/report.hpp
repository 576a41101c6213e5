// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tenure {

/// How much check_store() does. Less suits sanitizers, and slow or small stores.
struct conformance_options {
    std::size_t max_bytes  = std::size_t{64} << 20;  ///< of the largest block tried
    std::size_t free_count = 100'000;                ///< blocks in the largest single deallocate()
    unsigned    threads    = 8;
    unsigned    steps      = 2'000;  ///< of each random program; every thread runs one
};

enum class check_outcome { passed, failed, skipped };

/// One item of the contract, and whether the store keeps it.
struct conformance_check {
    std::string   name;
    check_outcome outcome = check_outcome::passed;
    std::string   reason;  ///< why it failed, with figures, or was skipped; if passed, what is worth knowing
};

/// The result of check_store().
struct conformance_report {
    std::string                    store;  ///< what it calls itself, or its type's name
    std::vector<conformance_check> checks;

    /// Returns whether nothing failed. Skipped checks, which to_text() lists, do not count.
    bool ok() const noexcept { return count(check_outcome::failed) == 0; }

    std::size_t count(check_outcome o) const noexcept {
        return static_cast<std::size_t>(
            std::ranges::count_if(checks, [o](conformance_check const& c) { return c.outcome == o; }));
    }

    /// Returns the check of that name, or null.
    conformance_check const* find(std::string_view name) const noexcept {
        auto const at = std::ranges::find(checks, name, &conformance_check::name);
        return at == checks.end() ? nullptr : &*at;
    }

    /// Returns text: a line for the store, then one for each check with outcome, name and reason.
    std::string to_text() const {
        std::string text = store + ": " + std::to_string(count(check_outcome::passed)) + " passed, " +
                           std::to_string(count(check_outcome::failed)) + " failed, " +
                           std::to_string(count(check_outcome::skipped)) + " skipped\n";
        std::size_t width = 0;
        for (conformance_check const& c : checks) width = std::max(width, c.name.size());
        for (conformance_check const& c : checks) {
            static constexpr std::string_view words[] = {"passed ", "FAILED ", "skipped"};
            text.append("  ").append(words[static_cast<std::size_t>(c.outcome)]).append("  ").append(c.name);
            if (!c.reason.empty()) text.append(width - c.name.size() + 2, ' ').append(c.reason);
            text += '\n';
        }
        return text;
    }
};

}  // namespace tenure

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include <tenure/tenure.hpp>

/// What is wrong with the books of a registry at rest; empty where nothing is: what batches retain is what is held,
/// and what is held and cached fits what is mapped.
inline std::string books_error(tenure::snapshot const& s) {
    std::size_t retained = 0;
    for (tenure::batch_info const& b : s.batches) retained += b.usage.retained;
    if (retained != s.memory.held)
        return "batches retain " + std::to_string(retained) + " bytes, held are " + std::to_string(s.memory.held) +
               "\n" + s.to_text();
    if (s.memory.held + s.memory.cached > s.memory.mapped)
        return "held " + std::to_string(s.memory.held) + " + cached " + std::to_string(s.memory.cached) +
               " > mapped " + std::to_string(s.memory.mapped);
    return {};
}

/// Rule 10 over one test: when this goes, the registry's books are right, and it has no batch that it did not have
/// before. Declare it before the first batch_scope of the test.
class accounting {
public:
    explicit accounting(tenure::registry& r = tenure::registry::global()) : registry_(r), before_(batches()) {
        check_books();
    }
    ~accounting() {
        check_books();
        for (tenure::batch_info const& b : registry_.snapshot().batches)
            if (!before_.contains(b.id)) FAIL_CHECK("left behind: " << tenure::detail::describe(b));
    }
    accounting(accounting const&)            = delete;
    accounting& operator=(accounting const&) = delete;

    /// Where no other thread is at work in the registry.
    void check_books() const { CHECK(books_error(registry_.snapshot()) == ""); }

private:
    std::set<tenure::batch_id> batches() const {
        std::set<tenure::batch_id> ids;
        for (tenure::batch_info const& b : registry_.snapshot().batches) ids.insert(b.id);
        return ids;
    }

    tenure::registry&                registry_;
    std::set<tenure::batch_id> const before_;
};

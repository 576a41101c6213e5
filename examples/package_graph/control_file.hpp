// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "graph.hpp"
#include "line_reader.hpp"

namespace package_graph {

/// How much a field of a package's description binds it to those it names; nullptr for a field that names none.
inline float const* strength_of(std::string_view field) noexcept {
    static constexpr std::array<std::pair<std::string_view, float>, 4> fields{
        {{"Depends", 1.0F}, {"Pre-Depends", 1.0F}, {"Recommends", 0.5F}, {"Suggests", 0.25F}}};
    for (auto const& [name, strength] : fields) {
        if (name == field) return &strength;
    }
    return nullptr;
}

/// Calls `f(name)` for each package that a relation field names, alternatives too:
/// "libc6 (>= 2.36), python3:any | python3-minimal [amd64] <!nocheck>" names libc6, python3 and python3-minimal.
template <class F>
void for_each_name(std::string_view relations, F f) {
    static constexpr std::string_view space = " \t", separators = ",|", end_of_name = " \t:([<";
    while (!relations.empty()) {
        auto const end  = relations.find_first_of(separators);
        auto       part = relations.substr(0, end);
        relations.remove_prefix(end == relations.npos ? relations.size() : end + 1);
        part.remove_prefix(std::min(part.find_first_not_of(space), part.size()));
        auto const name = part.substr(0, part.find_first_of(end_of_name));
        if (!name.empty()) f(name);
    }
}

/// Reads descriptions of packages as `apt-cache dumpavail` prints them and /var/lib/dpkg/status holds them: stanzas
/// of "Field: value" lines, apart by empty ones; a line that starts with a space goes on with the field before it.
inline void read_control_file(line_reader& lines, graph_builder& into) {
    std::string      package;
    float const*     strength = nullptr;  // of the field that a continuation would belong to
    bool             in_field = false;
    std::string_view line;

    auto const relate = [&](std::string_view relations) {
        if (!strength) return;
        if (package.empty()) lines.fail("a dependency before its \"Package:\" field");
        for_each_name(relations, [&](std::string_view other) { into.edge(package, other, *strength); });
    };

    while (lines.next(line)) {
        if (line.empty()) {
            package.clear();
            strength = nullptr;
            in_field = false;
        } else if (line.front() == ' ' || line.front() == '\t') {
            if (!in_field) lines.fail("this line continues a field, but there is none before it");
            relate(line);
        } else {
            auto const colon = line.find(':');
            if (colon == line.npos || colon == 0) {
                lines.fail("expected \"Field: value\", found \"" + std::string{line.substr(0, 60)} + "\"");
            }
            auto const field = line.substr(0, colon);
            auto       value = line.substr(colon + 1);
            value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
            in_field = true;
            strength = strength_of(field);
            if (field == "Package") {
                if (value.empty()) lines.fail("a package without a name");
                package = value;
                into.package(package);
            }
            relate(value);
        }
    }
}

}  // namespace package_graph

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "control_file.hpp"
#include "edge_list.hpp"
#include "graph.hpp"
#include "line_reader.hpp"

namespace package_graph {

struct loaded_graph {
    package_graph::graph graph;
    std::string          source;
};

inline loaded_graph load_edge_list(std::string const& file) {
    line_reader   lines{file};
    graph_builder builder;
    read_edge_list(lines, builder);
    if (builder.packages() == 0)
        throw input_error{file + " has no edges: expected lines of \"from to [strength]\""};
    return {std::move(builder).build(), file};
}

namespace detail {

inline graph_builder read_available() {
    struct closer {
        void operator()(std::FILE* f) const noexcept { ::pclose(f); }
    };
    graph_builder builder;
    // Where there is no apt-cache this is an empty pipe: no packages, like an index that was never fetched.
    std::unique_ptr<std::FILE, closer> const pipe{::popen("apt-cache dumpavail 2>/dev/null", "r")};
    if (pipe) {
        line_reader lines{pipe.get(), "apt-cache dumpavail"};
        read_control_file(lines, builder);
    }
    return builder;
}

inline graph_builder read_installed(std::string const& file) {
    graph_builder builder;
    if (std::filesystem::exists(file)) {
        line_reader lines{file};
        read_control_file(lines, builder);
    }
    return builder;
}

}  // namespace detail

/// Of all packages that apt knows of, else of those that are installed.
inline loaded_graph load_package_index() {
    std::string const status = "/var/lib/dpkg/status";
    if (auto all = detail::read_available(); all.packages() > 0)
        return {std::move(all).build(), "apt-cache dumpavail"};
    if (auto some = detail::read_installed(status); some.packages() > 0) return {std::move(some).build(), status};
    throw input_error{
        "no package index found. On Debian or Ubuntu run `apt-get update`; elsewhere pass an edge list with "
        "--graph FILE"};
}

}  // namespace package_graph

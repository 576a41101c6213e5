// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <boost/json.hpp>

namespace bench {

/// As printf.
template <class... T>
std::string format(char const* form, T... values) {
    char text[160];
    std::snprintf(text, sizeof text, form, values...);
    return text;
}

/// All that was measured: for each benchmark and each of its figures, one value a repetition.
class results {
public:
    /// Adds what is in a file of Google Benchmark's JSON. Throws std::runtime_error naming the file.
    void read(std::filesystem::path const& file);

    /// The median of the repetitions; nothing if it was not measured. `figure` is "ns", for one object (or whatever
    /// the benchmark counts), or one of its counters.
    std::optional<double> median(std::string const& benchmark, std::string const& figure = "ns") const;

    /// What takes part in a theme: "floor", "tenure" ..., in the order of the alphabet.
    std::vector<std::string> peers(std::string const& theme) const;

    /// About the machine and the build, as Google Benchmark and main.cpp wrote it.
    boost::json::object const& context() const noexcept { return context_; }

    /// Machine, and the medians of everything.
    boost::json::object to_json() const;

private:
    std::map<std::string, std::map<std::string, std::vector<double>>> values_;
    boost::json::object                                               context_;
};

}  // namespace bench

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#include "results.hpp"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

namespace json = boost::json;

namespace bench {

namespace {

/// Without what Google Benchmark adds to a name: "/iterations:1/manual_time".
std::string plain(std::string name) {
    for (auto const* added : {"/iterations:", "/manual_time", "/real_time"}) {
        name.resize(std::min(name.size(), name.find(added)));
    }
    return name;
}

double nanoseconds(json::object const& run) {
    static std::map<std::string, double, std::less<>> const units{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    // A thread's own time does not count what else the machine did. Where a benchmark has taken the time itself, or
    // several threads work, there is no such thing.
    auto const name  = json::value_to<std::string>(run.at("name"));
    auto const field = name.ends_with("/manual_time") ? "real_time" : "cpu_time";
    return run.at(field).to_number<double>() * units.at(json::value_to<std::string>(run.at("time_unit")));
}

double median_of(std::vector<double> values) {
    auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    return *middle;
}

}  // namespace

void results::read(std::filesystem::path const& file) try {
    std::stringstream text;
    text << std::ifstream{file}.rdbuf();
    auto const content = json::parse(text.str()).as_object();
    if (auto const context = content.if_contains("context")) context_ = context->as_object();

    static std::set<std::string, std::less<>> const not_counters{
        "name",        "run_name",         "run_type", "family_index", "per_family_instance_index",
        "repetitions", "repetition_index", "threads",  "iterations",   "real_time",
        "cpu_time",    "time_unit"};
    for (auto const& each : content.at("benchmarks").as_array()) {
        auto const& run = each.as_object();
        if (run.at("run_type") != "iteration") continue;
        if (run.contains("error_occurred")) throw std::runtime_error{json::serialize(run)};
        auto& figures = values_[plain(json::value_to<std::string>(run.at("name")))];
        for (auto const& [name, value] : run) {
            if (value.is_number() && !not_counters.contains(name))
                figures[name].push_back(value.to_number<double>());
        }
        auto const objects = run.contains("objects") ? run.at("objects").to_number<double>() : 1;
        figures["ns"].push_back(nanoseconds(run) / objects);
    }
} catch (std::exception const& e) {
    throw std::runtime_error{file.string() + ": " + e.what()};
}

std::optional<double> results::median(std::string const& benchmark, std::string const& figure) const {
    auto const measured = values_.find(benchmark);
    if (measured == values_.end()) return {};
    auto const values = measured->second.find(figure);
    if (values == measured->second.end()) return {};
    return median_of(values->second);
}

std::vector<std::string> results::peers(std::string const& theme) const {
    std::set<std::string> found;
    for (auto const& [name, figures] : values_) {
        if (!name.starts_with(theme + '/')) continue;
        auto const rest = name.substr(theme.size() + 1);
        found.insert(rest.substr(0, rest.find('/')));
    }
    return {found.begin(), found.end()};
}

json::object results::to_json() const {
    json::object medians;
    for (auto const& [name, figures] : values_) {
        auto& all = medians[name].emplace_object();
        for (auto const& [figure, values] : figures) all[figure] = median_of(values);
    }
    return {{"context", context_}, {"medians", std::move(medians)}};
}

}  // namespace bench

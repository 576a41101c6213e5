// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include <benchmark/benchmark.h>

#include "support.hpp"

namespace bench {

/// A directory that is empty, and gone with all that is in it.
class scratch_directory {
public:
    scratch_directory() {
        auto path = (std::filesystem::temp_directory_path() / "tenure_bench_XXXXXX").string();
        if (!::mkdtemp(path.data())) throw std::runtime_error{"bench: no directory " + path};
        path_ = path;
    }
    ~scratch_directory() { std::filesystem::remove_all(path_); }
    scratch_directory(scratch_directory const&)            = delete;
    scratch_directory& operator=(scratch_directory const&) = delete;

    std::filesystem::path const& path() const noexcept { return path_; }

private:
    std::filesystem::path path_;
};

inline void check(bool good, char const* what) {
    if (!good) throw std::runtime_error{std::string{"bench: "} + what};
}

inline constexpr auto nothing = [] {};

/// Runs a round once to bring everything in, then measures rounds by the wall clock; not what comes before and
/// after.
template <class B, class F, class A>
void measure(benchmark::State& state, std::size_t objects, B before, F round, A after) {
    before();
    round();
    after();
    for (auto _ : state) {
        before();
        auto const start = bench::clock::now();
        round();
        state.SetIterationTime(bench::seconds{bench::clock::now() - start}.count());
        after();
    }
    state.counters["objects"] = static_cast<double>(objects);
}

template <class F>
void measure(benchmark::State& state, std::size_t objects, F round) {
    measure(state, objects, nothing, round, nothing);
}

}  // namespace bench

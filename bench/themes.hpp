// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <benchmark/benchmark.h>

#include "keep.hpp"
#include "make.hpp"
#include "peer.hpp"
#include "threads.hpp"

namespace bench {

/// A peer takes part in every theme that it can.
template <peer P>
bool register_peer() {
    auto const add = [](char const* theme, void (*measure)(benchmark::State&)) {
        return benchmark::RegisterBenchmark((std::string{theme} + '/' + P::name).c_str(), measure);
    };
    add("make_end", make_end<P>)->ArgName("objects")->Arg(0)->Arg(1)->Arg(1000);
    add("nested", nested<P>);
    add("huge", huge<P>)->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);
    add("batch_each", batch_each<P>)
        ->ArgNames({"objects", "threads"})
        ->ArgsProduct({{1000, 100'000}, {1, 2}})
        ->UseManualTime();
    if constexpr (keeps<P>) {
        auto const every = [](benchmark::internal::Benchmark* theme) {
            theme->ArgName("every")->Arg(1)->Arg(10)->Arg(100)->Iterations(200)->UseManualTime();
        };
        add("keep", keep<P>)->Apply(every);
        if constexpr (requires(typename P::batch& b, std::vector<decltype(make_object(b, 0))> all) {
                          b.keep_all(all);
                      }) {
            add("keep_range", keep_range<P>)->Apply(every);
        }
    }
    if constexpr (keeps<P> && makes_any_size<typename P::batch>) {
        add("mixed", mixed<P>)->Unit(benchmark::kMillisecond);
    }
    if constexpr (ends_anywhere<P>) {
        add("end_elsewhere", end_elsewhere<P>)
            ->ArgNames({"objects", "threads"})
            ->ArgsProduct({{1000, 100'000}, {1, 2}})
            ->UseManualTime();
    }
    return true;
}

}  // namespace bench

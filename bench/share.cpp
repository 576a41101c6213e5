// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// One object for many receivers: what each of them costs, whatever the object's size.

#include <cstddef>
#include <vector>

#include <benchmark/benchmark.h>
#include <tenure/tenure.hpp>

#include "support.hpp"

namespace {

constexpr std::size_t receivers = 1000;

/// What is made in a batch goes to 1,000 others: with the first share, and with each one's first list.
template <class Make>
void share_with_all(benchmark::State& state, Make make) {
    tenure::registry&             r = tenure::registry::global();
    std::vector<tenure::batch_id> ids(receivers);
    for (auto _ : state) {
        tenure::batch_scope giver;
        auto const          h = make(giver, static_cast<std::size_t>(state.range(0)));
        for (tenure::batch_id& id : ids) id = r.new_batch();
        auto const start = bench::clock::now();
        r.broadcast(h, ids);
        state.SetIterationTime(bench::seconds{bench::clock::now() - start}.count());
        for (tenure::batch_id const id : ids) r.end_batch(id);
    }
    state.counters["objects"] = static_cast<double>(receivers);
}

void share_object(benchmark::State& state) {
    share_with_all(state, [](tenure::batch_scope& b, std::size_t n) { return b.make<char[]>(n); });
}
BENCHMARK(share_object)->Name("share/object")->ArgName("bytes")->Arg(64)->Arg(1 << 20)->UseManualTime();

void share_buffer(benchmark::State& state) {
    share_with_all(state, [](tenure::batch_scope& b, std::size_t n) { return b.make_buffer<char>(n); });
}
BENCHMARK(share_buffer)->Name("share/buffer")->ArgName("bytes")->Arg(1 << 30)->UseManualTime();

}  // namespace

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// 100,000 strings of 40 characters, which no string keeps inside itself: each needs memory of its own twice, for
// itself and for its characters.

#include <memory>
#include <memory_resource>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>
#include <tenure/tenure.hpp>

#include "peer.hpp"

namespace {

constexpr std::size_t      count = 100'000;
constexpr std::string_view text  = "forty characters are more than 15 and 23";
static_assert(text.size() == 40);

void new_delete(benchmark::State& state) {
    std::vector<std::string*> strings(count);
    bench::warm_then(state, [&] {
        for (auto& each : strings) bench::use(each = new std::string{text});
        for (auto each : strings) delete each;
    });
}

void unique_ptr(benchmark::State& state) {
    std::vector<std::unique_ptr<std::string>> strings;
    strings.reserve(count);
    bench::warm_then(state, [&] {
        for (std::size_t i = 0; i != count; ++i) {
            bench::use(strings.emplace_back(std::make_unique<std::string>(text)).get());
        }
        strings.clear();
    });
}

// As one uses it: both parts in the buffer, and no destructor called.
void pmr_warm(benchmark::State& state) {
    constexpr std::size_t bytes = count * (sizeof(std::pmr::string) + 48);
    bench::warm_buffer    buffer{bytes};
    bench::warm_then(state, [&] {
        std::pmr::monotonic_buffer_resource     resource{buffer.data(), bytes, std::pmr::null_memory_resource()};
        std::pmr::polymorphic_allocator<> const allocator{&resource};
        for (std::size_t i = 0; i != count; ++i) {
            auto const place = resource.allocate(sizeof(std::pmr::string), alignof(std::pmr::string));
            bench::use(::new (place) std::pmr::string{text, allocator});
        }
    });
}

void tenure_std_string(benchmark::State& state) {
    bench::warm_then(state, [&] {
        tenure::batch_scope batch;
        for (std::size_t i = 0; i != count; ++i) bench::use(batch.make<std::string>(text));
    });
}

void tenure_pmr_string(benchmark::State& state) {
    bench::warm_then(state, [&] {
        tenure::batch_scope                     batch;
        std::pmr::polymorphic_allocator<> const allocator{batch.resource()};
        for (std::size_t i = 0; i != count; ++i) bench::use(batch.make<std::pmr::string>(text, allocator));
    });
}

BENCHMARK(new_delete)->Name("strings/new_delete")->Unit(benchmark::kMillisecond);
BENCHMARK(unique_ptr)->Name("strings/unique_ptr")->Unit(benchmark::kMillisecond);
BENCHMARK(pmr_warm)->Name("strings/pmr_warm")->Unit(benchmark::kMillisecond);
BENCHMARK(tenure_std_string)->Name("strings/tenure")->Unit(benchmark::kMillisecond);
BENCHMARK(tenure_pmr_string)->Name("strings/tenure_pmr")->Unit(benchmark::kMillisecond);

}  // namespace

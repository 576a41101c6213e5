// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// The parts of examples/model_cache.cpp; ctest runs the whole program, too.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <memory_resource>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "model_cache/caches.hpp"
#include "model_cache/federation.hpp"

using namespace model_cache;

namespace {

auto* const heap = std::pmr::get_default_resource();

std::string directory() { return std::filesystem::temp_directory_path().string(); }

federation small() {
    federation f;
    f.net     = {{16, 24, 12, 4}};
    f.clients = 30;
    f.rounds  = 6;
    f.sample  = 8;
    return f;
}

figures in_batches(federation const& f, std::size_t limit) {
    tenure::registry_options where{.page_file = directory()};
    where.memory_limit.high = limit;
    return run("batches", f, [&] { return std::make_unique<batches>(f.clients, f.net.parameters(), where); });
}
figures in_files(federation const& f) {
    return run("files", f, [&] { return std::make_unique<files>(f.clients, f.net.parameters(), directory()); });
}

}  // namespace

TEST_CASE("a gradient is what the loss does when a parameter changes a little") {
    network const      net{{6, 10, 7, 3}};
    task const         what(net, 7);
    examples const     seen       = what.draw(5, 7, 0, {7, 9}, heap);
    std::vector<float> parameters = first_weights(net, 3);
    REQUIRE(parameters.size() == net.parameters());
    std::vector<float> gradient(parameters.size()), ignored(parameters.size());
    auto const         loss = [&] { return pass(net, parameters, seen.inputs, heap).loss(seen.labels, ignored); };
    pass(net, parameters, seen.inputs, heap).loss(seen.labels, gradient);
    float worst = 0;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        constexpr float h    = 1e-3F;
        float const     kept = parameters[i];
        parameters[i]        = kept + h;
        float const more     = loss();
        parameters[i]        = kept - h;
        float const less     = loss();
        parameters[i]        = kept;
        worst                = std::max(worst, std::abs((more - less) / (2 * h) - gradient[i]));
    }
    CHECK(worst < 2e-3F);  // of derivatives up to 1, from floats of 7 digits
}

TEST_CASE("training learns what it sees") {
    federation const f = small();
    task const       what(f.net, 1);
    auto             weights = first_weights(f.net, 1), momentum = std::vector<float>(weights.size());
    auto             variance = momentum;
    auto const       global   = weights;
    client           c(weights, momentum, variance, heap);
    training         how;
    how.steps = 200;
    how.rate  = 1e-2F;
    train(c, global, f.net, what, how, 0, 0, heap);
    CHECK(c.steps == 200);
    REQUIRE(c.metrics.size() == 1);
    CHECK(c.metrics[0].last_loss < c.metrics[0].first_loss / 2);
    examples const more = what.draw(200, how.seed, 0, {1, 99}, heap);
    CHECK(pass(f.net, c.weights, more.inputs, heap).accuracy(more.labels) > 0.6);
}

TEST_CASE("a sample has no one twice, and is the same for the same seed") {
    auto const a = sample(100, 40, {1, 2, 3}), b = sample(100, 40, {1, 2, 3}), c = sample(100, 40, {1, 2, 4});
    CHECK(a == b);
    CHECK(a != c);
    CHECK(std::set<std::uint32_t>(a.begin(), a.end()).size() == 40);
    CHECK(*std::ranges::max_element(a) < 100);
    auto all = sample(10, 10, {5, 6});
    std::ranges::sort(all);
    CHECK(all == std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("the same in memory, paged and in files, to the last bit") {
    federation const f      = small();
    auto const       memory = in_batches(f, tenure::no_limit);
    auto const       paged  = in_batches(f, 512 << 10);  // of 30 clients with 64 KiB each
    auto const       filed  = in_files(f);
    CHECK(paged.weights == memory.weights);
    CHECK(filed.weights == memory.weights);
    CHECK(paged.accuracy == memory.accuracy);
    CHECK(memory.written == 0);
    CHECK(paged.written >= (f.clients - 8) * memory.bytes_a_client);  // eight fit
    // Each once, when it is made, and once a visit; the digest, which is taken later, reads each and writes it
    // back.
    std::size_t const a_client = memory.bytes_a_client + 8;
    CHECK(filed.written >= (f.clients + f.rounds * f.sample) * a_client);
    CHECK(filed.written <= (f.clients + f.rounds * f.sample) * (a_client + f.rounds * sizeof(metric)));

    auto other     = f;
    other.how.seed = 2;
    CHECK(in_batches(other, tenure::no_limit).weights != memory.weights);
}

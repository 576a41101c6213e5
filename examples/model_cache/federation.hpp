// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory_resource>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client.hpp"
#include "demo/percentile.hpp"
#include "demo/progress_bar.hpp"
#include "demo/resident.hpp"
#include "figures.hpp"
#include "network.hpp"
#include "random.hpp"

namespace model_cache {

struct federation {
    network       net{{128, 256, 120, 10}};  // 256 KiB of parameters, less a little
    std::uint32_t clients = 1000;
    std::uint32_t rounds  = 20;
    std::uint32_t sample  = 50;  ///< clients a round
    training      how;
};

/// FNV-1a, a word at a time, of the bits of floats.
class digest {
public:
    void add(std::uint32_t word) { value_ = (value_ ^ word) * 0x100000001b3; }
    void add(std::span<float const> values) {
        for (float const v : values) add(std::bit_cast<std::uint32_t>(v));
    }
    void add(client const& c) {
        add(c.weights);
        add(c.momentum);
        add(c.variance);
        add(c.steps);
        for (metric const& m : c.metrics) {
            add(m.round);
            add(std::bit_cast<std::uint32_t>(m.first_loss));
            add(std::bit_cast<std::uint32_t>(m.last_loss));
        }
    }
    std::string text() const {
        char digits[17];
        std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(value_));
        return digits;
    }

private:
    std::uint64_t value_ = 0xcbf29ce484222325;
};

/// Uniform, so that signals keep their size from layer to layer: He et al., "Delving deep into rectifiers" (2015).
inline std::vector<float> first_weights(network const& net, std::uint64_t seed) {
    std::vector<float> out;
    random_stream      random{seed, 0};
    for (std::size_t l = 0; l < net.layers(); ++l) {
        float const width = std::sqrt(6 / static_cast<float>(net.widths[l]));
        for (std::size_t i = 0; i < net.widths[l] * net.widths[l + 1]; ++i)
            out.push_back(width * random.symmetric());
        out.resize(out.size() + net.widths[l + 1]);
    }
    return out;
}

/// One round of federated averaging (McMahan et al., 2017): the clients that are drawn train, and the mean of what
/// they come to is the next global model.
template <class Cache>
void run_round(Cache& cache, federation const& f, task const& what, std::uint32_t round, std::span<float> global) {
    std::vector<double> sum(global.size());
    for (std::uint32_t const who : sample(f.clients, f.sample, {f.how.seed, 4, round})) {
        cache.use(who, [&](client& c, std::pmr::memory_resource* scratch) {
            train(c, global, f.net, what, f.how, who, round, scratch);
            for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(c.weights[i]);
        });
    }
    for (std::size_t i = 0; i < sum.size(); ++i) global[i] = static_cast<float>(sum[i] / f.sample);
}

/// How well the global model does on examples that no client had.
inline double accuracy(federation const& f, task const& what, std::span<float const> global) {
    auto* const    where   = std::pmr::get_default_resource();
    examples const unknown = what.draw(1000, f.how.seed, f.clients, {f.how.seed, 5}, where);
    return pass(f.net, global, unknown.inputs, where).accuracy(unknown.labels);
}

/// Makes the clients' cache, `open()`, and runs all rounds in it.
template <class Open>
figures run(std::string const& mode, federation const& f, Open open) {
    using clock          = std::chrono::steady_clock;
    auto const millisecs = [](auto took) { return std::chrono::duration<double, std::milli>(took).count(); };
    task const what(f.net, f.how.seed);
    auto       global = first_weights(f.net, f.how.seed);

    figures out;
    out.mode            = mode;
    out.bytes_a_client  = 3 * f.net.parameters() * sizeof(float);
    out.resident_before = demo::resident_memory().now;
    auto begin          = clock::now();
    auto cache          = open();
    out.making_ms       = millisecs(clock::now() - begin);
    {
        demo::progress_bar  bar(mode + ": rounds", f.rounds);
        std::vector<double> times;
        for (std::uint32_t round = 0; round < f.rounds; ++round) {
            begin = clock::now();
            run_round(*cache, f, what, round, global);
            times.push_back(millisecs(clock::now() - begin));
            bar.step();
        }
        out.round_median_ms = demo::percentile(times, 0.5);
        out.round_p90_ms    = demo::percentile(times, 0.9);
    }
    out.resident_end  = demo::resident_memory().now;
    out.resident_peak = demo::resident_memory().peak;
    out.written       = cache->bytes_written();
    out.accuracy      = accuracy(f, what, global);

    digest all;  // of the global model, and of every client to the last bit: none may have been lost on the way
    all.add(global);
    for (std::uint32_t who = 0; who < f.clients; ++who)
        cache->use(who, [&](client const& c, std::pmr::memory_resource*) { all.add(c); });
    out.weights = all.text();
    return out;
}

}  // namespace model_cache

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "network.hpp"
#include "random.hpp"

namespace model_cache {

/// What a client found in a round that it took part in.
struct metric {
    std::uint32_t round;
    float         first_loss;
    float         last_loss;
};

/// One client's part of the server's memory. Where the three arrays lie is for its maker to say; to its user it is
/// the same everywhere.
struct client {
    std::span<float>         weights;             ///< of its model, as it left it
    std::span<float>         momentum, variance;  ///< Adam's
    std::uint32_t            steps = 0;           ///< that Adam took
    std::pmr::vector<metric> metrics;

    client(std::span<float> w, std::span<float> m, std::span<float> v, std::pmr::memory_resource* where)
        : weights(w), momentum(m), variance(v), metrics(where) {}
};

struct training {
    std::uint64_t seed  = 1;
    std::size_t   steps = 4;  ///< of gradient descent, a round
    std::size_t   batch = 8;  ///< examples a step
    float         rate  = 1e-3F;
};

/// What the examples are about: a class is a direction; an input that is nearest to it is of that class. The same
/// for all clients but for a bias of each: they see the classes in different shares.
class task {
public:
    task(network const& net, std::uint64_t seed)
        : inputs_(net.inputs()), directions_(net.inputs() * net.classes()) {
        random_stream random{seed, 1};
        for (float& d : directions_) d = random.symmetric();
    }

    /// Examples as client `who` sees them, drawn from `random`.
    examples draw(std::size_t n, std::uint64_t seed, std::uint64_t who, random_stream random,
                  std::pmr::memory_resource* where) const {
        std::size_t const       classes = directions_.size() / inputs_;
        std::pmr::vector<float> bias(classes, where);
        random_stream           taste{seed, 2, who};
        for (float& b : bias) b = 4 * taste.symmetric();
        examples out{matrix(n, inputs_, where), std::pmr::vector<unsigned>(n, where)};
        for (std::size_t row = 0; row < n; ++row) {
            auto const x = out.inputs[row];
            for (float& v : x) v = random.symmetric();
            float best = -INFINITY;
            for (std::size_t c = 0; c < classes; ++c) {
                float const near = bias[c] + dot(x, std::span(directions_).subspan(c * inputs_, inputs_));
                if (near <= best) continue;
                best            = near;
                out.labels[row] = static_cast<unsigned>(c);
            }
        }
        return out;
    }

private:
    std::size_t        inputs_;
    std::vector<float> directions_;
};

/// Adam: Kingma, Ba, "A method for stochastic optimization" (2015).
inline void adam_step(client& c, std::span<float const> gradient, float rate) {
    constexpr float b1 = 0.9F, b2 = 0.999F, tiny = 1e-8F;
    ++c.steps;
    auto const   t     = static_cast<float>(c.steps);
    float const  scale = rate * std::sqrt(1 - std::pow(b2, t)) / (1 - std::pow(b1, t));
    float* const w     = c.weights.data();
    float* const m     = c.momentum.data();
    float* const v     = c.variance.data();
    for (std::size_t i = 0; i < gradient.size(); ++i) {
        float const g = gradient[i];
        m[i]          = b1 * m[i] + (1 - b1) * g;
        v[i]          = b2 * v[i] + (1 - b2) * g * g;
        w[i] -= scale * m[i] / (std::sqrt(v[i]) + tiny);
    }
}

/// A client's part of a round: it takes the global model over and goes on from there, on examples of its own. What
/// it needs meanwhile is in `scratch`.
inline void train(client& c, std::span<float const> global, network const& net, task const& what,
                  training const& how, std::uint32_t who, std::uint32_t round, std::pmr::memory_resource* scratch) {
    std::ranges::copy(global, c.weights.begin());
    std::pmr::vector<float> gradient(c.weights.size(), scratch);
    metric                  found{round, 0, 0};
    for (std::size_t step = 0; step < how.steps; ++step) {
        random_stream const random{how.seed, 3 + step, std::uint64_t{round} << 32 | who};
        examples const      seen = what.draw(how.batch, how.seed, who, random, scratch);
        found.last_loss          = pass(net, c.weights, seen.inputs, scratch).loss(seen.labels, gradient);
        if (step == 0) found.first_loss = found.last_loss;
        adam_step(c, gradient, how.rate);
    }
    c.metrics.push_back(found);
}

}  // namespace model_cache

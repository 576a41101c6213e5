// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <memory_resource>
#include <span>
#include <vector>

namespace model_cache {

/// A multilayer perceptron: widths[0] numbers in, a class out, rectifiers in between. Its parameters are one array,
/// layer after layer: the weights, a row for each input, then the biases.
struct network {
    std::vector<std::size_t> widths;

    std::size_t inputs() const { return widths.front(); }
    std::size_t classes() const { return widths.back(); }
    std::size_t layers() const { return widths.size() - 1; }

    std::size_t parameters() const {
        std::size_t n = 0;
        for (std::size_t l = 0; l < layers(); ++l) n += (widths[l] + 1) * widths[l + 1];
        return n;
    }
};

/// Rows of one width.
struct matrix {
    std::pmr::vector<float> values;
    std::size_t             width;

    matrix(std::size_t rows, std::size_t columns, std::pmr::memory_resource* where)
        : values(rows * columns, where), width(columns) {}

    std::size_t            rows() const { return values.size() / width; }
    std::span<float>       operator[](std::size_t row) { return std::span(values).subspan(row * width, width); }
    std::span<float const> operator[](std::size_t row) const {
        return std::span(values).subspan(row * width, width);
    }
};

/// y += a x
inline void add_scaled(std::span<float> y, float a, std::span<float const> x) {
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += a * x[i];
}

/// In a fixed order, whatever the compiler makes of it: the sums of every 8th product, then their sum.
inline float dot(std::span<float const> x, std::span<float const> y) {
    std::array<float, 8> sums{};
    std::size_t          i = 0;
    for (; i + sums.size() <= x.size(); i += sums.size())
        for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += x[i + j] * y[i + j];
    for (; i < x.size(); ++i) sums[i % sums.size()] += x[i] * y[i];
    float all = 0;
    for (float const s : sums) all += s;
    return all;
}

/// Examples, and what they are.
struct examples {
    matrix                     inputs;
    std::pmr::vector<unsigned> labels;
};

/// The network's answers to some inputs, and the gradient of what is wrong with them. All that it needs on the way
/// is in `where`.
class pass {
public:
    pass(network const& net, std::span<float const> parameters, matrix const& inputs,
         std::pmr::memory_resource* where)
        : net_(net), parameters_(parameters), where_(where), activations_(where) {
        activations_.reserve(net.layers() + 1);
        activations_.push_back(inputs);
        std::size_t at = 0;
        for (std::size_t l = 0; l < net.layers(); ++l) {
            std::size_t const from = net.widths[l], to = net.widths[l + 1];
            auto const        weights = parameters.subspan(at, from * to);
            auto const        biases  = parameters.subspan(at + from * to, to);
            at += (from + 1) * to;
            matrix const& x = activations_[l];
            matrix        y(x.rows(), to, where);
            for (std::size_t row = 0; row < x.rows(); ++row) {
                std::ranges::copy(biases, y[row].begin());
                for (std::size_t i = 0; i < from; ++i)
                    if (x[row][i] != 0) add_scaled(y[row], x[row][i], weights.subspan(i * to, to));
                if (l + 1 < net.layers())
                    for (float& v : y[row]) v = std::max(v, 0.0F);
            }
            activations_.push_back(std::move(y));
        }
    }

    /// A score for each class.
    matrix const& scores() const { return activations_.back(); }

    /// Share of the examples that are recognised.
    double accuracy(std::span<unsigned const> labels) const {
        std::size_t right = 0;
        for (std::size_t row = 0; row < labels.size(); ++row) {
            auto const best = std::ranges::max_element(scores()[row]) - scores()[row].begin();
            right += static_cast<unsigned>(best) == labels[row];
        }
        return static_cast<double>(right) / static_cast<double>(labels.size());
    }

    /// The mean cross-entropy, and into `gradient` its derivative by each parameter.
    float loss(std::span<unsigned const> labels, std::span<float> gradient) const {
        matrix delta(labels.size(), net_.classes(), where_);  // by the scores, then layer by layer downwards
        auto   loss  = 0.0F;
        auto   share = 1 / static_cast<float>(labels.size());
        for (std::size_t row = 0; row < labels.size(); ++row) {
            auto const  s   = scores()[row];
            float const top = *std::ranges::max_element(s);
            float       sum = 0;
            for (std::size_t c = 0; c < s.size(); ++c) sum += delta[row][c] = std::exp(s[c] - top);
            for (float& d : delta[row]) d *= share / sum;
            delta[row][labels[row]] -= share;
            loss += (std::log(sum) + top - s[labels[row]]) * share;
        }
        std::ranges::fill(gradient, 0.0F);
        std::size_t at = gradient.size();
        for (std::size_t l = net_.layers(); l-- > 0;) {
            std::size_t const from = net_.widths[l], to = net_.widths[l + 1];
            at -= (from + 1) * to;
            matrix const& x     = activations_[l];
            matrix        below = l ? matrix(x.rows(), from, where_) : matrix(0, 1, where_);
            for (std::size_t row = 0; row < x.rows(); ++row) {
                auto const d = delta[row];
                add_scaled(gradient.subspan(at + from * to, to), 1, d);
                for (std::size_t i = 0; i < from; ++i) {
                    float const v = x[row][i];
                    if (v == 0) continue;  // nothing passes a rectifier that is off, in either direction
                    add_scaled(gradient.subspan(at + i * to, to), v, d);
                    if (l) below[row][i] = dot(d, parameters_.subspan(at + i * to, to));
                }
            }
            delta = std::move(below);
        }
        return loss;
    }

private:
    network const&             net_;
    std::span<float const>     parameters_;
    std::pmr::memory_resource* where_;
    std::pmr::vector<matrix>   activations_;
};

}  // namespace model_cache

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>

#include <tenure/tenure.hpp>

#include "remote_buffers/matrix.hpp"

namespace remote_buffers {

/// A product, in the batch that is current. Seven products of matrices half as large, each of sums that nobody
/// needs once it is done, and the products themselves nobody once they are added up: a batch in a batch for each
/// step down, and only the result is kept (Strassen, "Gaussian elimination is not optimal", 1969).
inline matrix multiply(worker& w, matrix const& a, matrix const& b) {
    if (a.side == 1) return {1, {w.product(a.tiles[0], b.tiles[0])}};

    tenure::batch_scope sevenfold{{.name = "sevenfold"}};
    auto const          a11 = a.quarter(0, 0), a12 = a.quarter(0, 1), a21 = a.quarter(1, 0), a22 = a.quarter(1, 1);
    auto const          b11 = b.quarter(0, 0), b12 = b.quarter(0, 1), b21 = b.quarter(1, 0), b22 = b.quarter(1, 1);

    auto const product = [&](auto left, auto right) {
        tenure::batch_scope one{{.name = "product"}};
        auto                p = multiply(w, left(), right());
        one.keep(p.tiles);
        return p;
    };
    auto const sum        = [&](matrix const& x, matrix const& y) { return [&] { return w.sum(x, y); }; };
    auto const difference = [&](matrix const& x, matrix const& y) { return [&] { return w.difference(x, y); }; };
    auto const itself     = [](matrix const& x) { return [&] { return x; }; };

    auto const m1 = product(sum(a11, a22), sum(b11, b22));
    auto const m2 = product(sum(a21, a22), itself(b11));
    auto const m3 = product(itself(a11), difference(b12, b22));
    auto const m4 = product(itself(a22), difference(b21, b11));
    auto const m5 = product(sum(a11, a12), itself(b22));
    auto const m6 = product(difference(a21, a11), sum(b11, b12));
    auto const m7 = product(difference(a12, a22), sum(b21, b22));

    auto const c11 = w.sum(w.difference(w.sum(m1, m4), m5), m7);
    auto const c12 = w.sum(m3, m5);
    auto const c21 = w.sum(m2, m4);
    auto const c22 = w.sum(w.difference(w.sum(m1, m3), m2), m6);

    auto c = matrix::of_quarters(c11, c12, c21, c22);
    sevenfold.keep(c.tiles);
    return c;
}

/// Whether c is a times b: by what they do to a few random vectors, which a wrong c gets past with odds of one in
/// two for each at most (Freivalds, 1977), and mostly far less.
inline bool is_product(worker& w, matrix const& a, matrix const& b, matrix const& c, std::uint64_t seed) {
    std::mt19937_64 random{seed};
    for (int i = 0; i != 4; ++i) {
        std::vector<element> v(c.side * w.width());
        std::generate(v.begin(), v.end(), [&] { return static_cast<element>(random()); });
        if (w.times(c, v) != w.times(a, w.times(b, v))) return false;
    }
    return true;
}

}  // namespace remote_buffers

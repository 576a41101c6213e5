// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <tenure/tenure.hpp>

namespace remote_buffers {

/// Sums and products that wrap: so Strassen's way comes to the same as any other, to the last bit.
using element = std::uint32_t;
using tile    = tenure::buffer<element>;

/// A square of tiles, row by row. It refers to them, and does not own them: their batch does.
struct matrix {
    std::size_t       side = 0;  ///< in tiles
    std::vector<tile> tiles;

    tile const& at(std::size_t row, std::size_t column) const { return tiles[row * side + column]; }

    /// The same tiles, a quarter of them.
    matrix quarter(std::size_t row, std::size_t column) const {
        std::size_t const half = side / 2;
        matrix            q{half, {}};
        for (std::size_t r = 0; r != half; ++r)
            for (std::size_t c = 0; c != half; ++c) q.tiles.push_back(at(row * half + r, column * half + c));
        return q;
    }

    static matrix of_quarters(matrix const& a, matrix const& b, matrix const& c, matrix const& d) {
        matrix all{2 * a.side, {}};
        for (auto const& [left, right] : {std::pair{&a, &b}, std::pair{&c, &d}}) {
            for (std::size_t r = 0; r != a.side; ++r) {
                for (std::size_t k = 0; k != a.side; ++k) all.tiles.push_back(left->at(r, k));
                for (std::size_t k = 0; k != a.side; ++k) all.tiles.push_back(right->at(r, k));
            }
        }
        return all;
    }
};

/// Does arithmetic on tiles that are elsewhere, with room here for three of them. What it makes is in the batch
/// that is current.
class worker {
public:
    /// Tiles of `width` times `width` elements.
    worker(tenure::any_store store, std::size_t width)
        : store_(std::move(store)), width_(width), a_(width * width), b_(width * width), c_(width * width) {}

    std::size_t width() const noexcept { return width_; }
    std::size_t products() const noexcept { return products_; }  ///< of tiles, done so far
    std::size_t made() const noexcept { return made_; }          ///< tiles

    /// Called before each product of two tiles.
    std::function<void()> before_product;

    /// `f(row, column)` is the element.
    template <class F>
    matrix make(std::size_t side, F f) {
        matrix m{side, {}};
        for (std::size_t t = 0; t != side * side; ++t) {
            for (std::size_t i = 0; i != c_.size(); ++i)
                c_[i] = f(t / side * width_ + i / width_, t % side * width_ + i % width_);
            m.tiles.push_back(written());
        }
        return m;
    }

    matrix sum(matrix const& a, matrix const& b) { return each(a, b, std::plus<>{}); }
    matrix difference(matrix const& a, matrix const& b) { return each(a, b, std::minus<>{}); }

    tile product(tile const& a, tile const& b) {
        if (before_product) before_product();
        a.read(0, a_);
        b.read(0, b_);
        c_.assign(c_.size(), 0);
        for (std::size_t i = 0; i != width_; ++i) {
            for (std::size_t k = 0; k != width_; ++k) {
                element const        factor = a_[i * width_ + k];
                element const* const from   = &b_[k * width_];
                element* const       to     = &c_[i * width_];
                for (std::size_t j = 0; j != width_; ++j) to[j] += factor * from[j];
            }
        }
        ++products_;
        return written();
    }

    std::vector<element> times(matrix const& m, std::span<element const> vector) {
        if (vector.size() != m.side * width_) throw std::invalid_argument{"a vector of another size"};
        std::vector<element> out(vector.size());
        for (std::size_t t = 0; t != m.tiles.size(); ++t) {
            m.tiles[t].read(0, a_);
            for (std::size_t i = 0; i != a_.size(); ++i)
                out[t / m.side * width_ + i / width_] += a_[i] * vector[t % m.side * width_ + i % width_];
        }
        return out;
    }

private:
    template <class F>
    matrix each(matrix const& a, matrix const& b, F f) {
        matrix out{a.side, {}};
        for (std::size_t t = 0; t != a.tiles.size(); ++t) {
            a.tiles[t].read(0, a_);
            b.tiles[t].read(0, b_);
            for (std::size_t i = 0; i != c_.size(); ++i) c_[i] = f(a_[i], b_[i]);
            out.tiles.push_back(written());
        }
        return out;
    }

    /// What is in c_, in a new tile.
    tile written() {
        auto const t = tenure::make_buffer<element>(c_.size(), store_);
        t.write(0, c_);
        ++made_;
        return t;
    }

    tenure::any_store    store_;
    std::size_t          width_;
    std::vector<element> a_, b_, c_;
    std::size_t          products_ = 0, made_ = 0;
};

}  // namespace remote_buffers

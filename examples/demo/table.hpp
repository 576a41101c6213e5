// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace demo {

/// 27090300 -> "27,090,300"
inline std::string grouped(std::size_t n) {
    auto digits = std::to_string(n);
    for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
        digits.insert(static_cast<std::size_t>(at), 1, ',');
    }
    return digits;
}

inline std::string fixed(double x, int decimals) {
    char      text[64];
    int const length = std::snprintf(text, sizeof text, "%.*f", decimals, x);
    return {text, static_cast<std::size_t>(length)};
}

/// Three digits that count: "0.0312 ms", "4.56 ms", "212 ms", "1.07 s".
inline std::string milliseconds(double ms) {
    if (ms >= 1000) return fixed(ms / 1000, 2) + " s";
    return fixed(ms, ms >= 100 ? 0 : ms >= 10 ? 1 : ms >= 1 ? 2 : ms >= 0.1 ? 3 : 4) + " ms";
}

inline std::string mebibytes(std::size_t bytes) {
    return fixed(static_cast<double>(bytes) / (1 << 20), 0) + " MiB";
}

/// Columns as wide as they need to be; `alignment` has an l or an r for each.
class table {
public:
    explicit table(std::string alignment) : alignment_{std::move(alignment)} {}

    void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

    friend std::ostream& operator<<(std::ostream& out, table const& t) {
        std::vector<std::size_t> widths(t.alignment_.size());
        for (auto const& cells : t.rows_) {
            for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], width(cells[i]));
        }
        for (auto const& cells : t.rows_) {
            std::string line;
            for (std::size_t i = 0; i < cells.size(); ++i) {
                std::string const padding(widths[i] - width(cells[i]), ' ');
                line += "  " + (t.alignment_[i] == 'r' ? padding + cells[i] : cells[i] + padding);
            }
            line.erase(line.find_last_not_of(' ') + 1);
            out << line << '\n';
        }
        return out;
    }

private:
    /// In characters, not bytes: those that UTF-8 goes on with do not count.
    static std::size_t width(std::string_view text) {
        return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
    }

    std::string                           alignment_;
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace demo

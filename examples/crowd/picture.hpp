// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "demo/table.hpp"
#include "jobs.hpp"
#include "machine.hpp"

namespace crowd {

/// Writes who had how much memory over time, as an SVG: an area for each process, one run beside the other below
/// each other, to one scale.
class picture {
public:
    picture(std::vector<job> const& jobs, std::size_t memory) : jobs_(jobs), memory_(memory) {}

    void add(std::string title, course const& c) { runs_.emplace_back(std::move(title), &c); }

    friend std::ostream& operator<<(std::ostream& out, picture const& p) {
        p.write(out);
        return out;
    }

private:
    static constexpr double width = 900, height = 220, left = 70, top = 34;

    void write(std::ostream& out) const {
        double      longest = 0;
        std::size_t most    = memory_;
        for (auto const& [title, c] : runs_) {
            longest = std::max(longest, c->seconds);
            most    = std::max(most, c->peak);
        }
        double const all = (height + 2 * top) * static_cast<double>(runs_.size());
        out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width + left + 20 << ' ' << all
            << "\" font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" "
               "fill=\"#fff\"/>\n";
        for (std::size_t r = 0; r < runs_.size(); ++r) {
            out << "<g transform=\"translate(" << left << ' ' << top + static_cast<double>(r) * (height + 2 * top)
                << ")\">\n";
            run(out, *runs_[r].second, runs_[r].first, width / longest, height / static_cast<double>(most));
            out << "</g>\n";
        }
        out << "</svg>\n";
    }

    void run(std::ostream& out, course const& c, std::string const& title, double per_second,
             double per_byte) const {
        out << "<text y=\"-10\">" << title << "</text>\n";
        auto const at = [&](double seconds, double bytes) {
            return demo::fixed(seconds * per_second, 1) + ',' + demo::fixed(height - bytes * per_byte, 1) + ' ';
        };
        std::vector<double> below(c.moments.size(), 0);
        for (std::size_t i = 0; i < jobs_.size(); ++i) {
            std::string up, down;
            for (std::size_t m = 0; m < c.moments.size(); ++m) {
                down = at(c.moments[m].at, below[m]) + down;
                below[m] += static_cast<double>(c.moments[m].bytes[i]);
                up += at(c.moments[m].at, below[m]);
            }
            out << "<polygon fill=\"" << color(i) << "\" points=\"" << up << down << "\"><title>" << jobs_[i].name()
                << "</title></polygon>\n";
        }
        double const limit = height - static_cast<double>(memory_) * per_byte;
        out << "<line x2=\"" << width << "\" y1=\"" << limit << "\" y2=\"" << limit
            << "\" stroke=\"#c00\" stroke-dasharray=\"6 4\"/>\n<text x=\"-6\" y=\"" << limit + 4
            << "\" text-anchor=\"end\">" << demo::mebibytes(memory_) << "</text>\n<line x2=\"" << width
            << "\" y1=\"" << height << "\" y2=\"" << height << "\" stroke=\"#888\"/>\n<text x=\""
            << c.seconds * per_second << "\" y=\"" << height + 16 << "\" text-anchor=\"end\">"
            << demo::fixed(c.seconds, 1) << " s</text>\n";
    }

    /// A hue for each user, and two lightnesses for the kinds of work.
    std::string color(std::size_t i) const {
        static constexpr std::array<int, 6> hues{210, 30, 130, 280, 0, 60};
        std::size_t                         user = 0;
        std::vector<std::string>            seen;
        for (std::size_t k = 0; k <= i; ++k)
            if (std::ranges::find(seen, jobs_[k].user) == seen.end()) seen.push_back(jobs_[k].user);
        user = static_cast<std::size_t>(std::ranges::find(seen, jobs_[i].user) - seen.begin());
        return "hsl(" + std::to_string(hues[user % hues.size()]) + " 60% " + (jobs_[i].trains ? "45" : "62") + "%)";
    }

    std::vector<job> const&                            jobs_;
    std::size_t                                        memory_;
    std::vector<std::pair<std::string, course const*>> runs_{};
};

}  // namespace crowd

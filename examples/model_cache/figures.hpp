// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "demo/table.hpp"

namespace model_cache {

struct figures {
    std::string   mode;
    std::size_t   bytes_a_client  = 0;  ///< of parameters and optimizer
    std::size_t   resident_before = 0, resident_peak = 0, resident_end = 0;
    double        making_ms       = 0;  ///< all clients
    double        round_median_ms = 0, round_p90_ms = 0;
    std::uint64_t written  = 0;  ///< bytes to disk
    double        accuracy = 0;  ///< of the global model, in the end
    std::string   weights;       ///< a digest of the global model and of every client's state
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(figures, mode, bytes_a_client, resident_before, resident_peak, resident_end,
                                   making_ms, round_median_ms, round_p90_ms, written, accuracy, weights)

inline void print(std::ostream& out, std::vector<figures> const& modes) {
    demo::table t{"lrrrrrrl"};
    t.row({"mode", "resident, peak", "at end", "making all", "a round, median", "p90", "written", "  all weights"});
    for (auto const& f : modes) {
        t.row({f.mode, demo::mebibytes(f.resident_peak), demo::mebibytes(f.resident_end),
               demo::milliseconds(f.making_ms), demo::milliseconds(f.round_median_ms),
               demo::milliseconds(f.round_p90_ms), demo::mebibytes(f.written), "  " + f.weights});
    }
    out << t;
}

}  // namespace model_cache

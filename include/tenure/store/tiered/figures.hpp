// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>

namespace tenure {

/// Live blocks in one tier of a tiered_store.
struct tier_figures {
    std::size_t bytes  = 0;
    std::size_t blocks = 0;

    friend bool operator==(tier_figures const&, tier_figures const&) = default;
};

struct tiered_figures {
    tier_figures    fast, slow;
    std::uint64_t   promotions = 0, demotions = 0;                ///< moves that succeeded
    std::uint64_t   failed_promotions = 0, failed_demotions = 0;  ///< moves that left the block whole where it was
    std::size_t     left_behind = 0;  ///< blocks that are gone, but a tier could not free its copy yet
    std::error_code last_error;       ///< of the last failed move

    /// Returns text: a line for each tier, and one for the moves.
    std::string to_text() const {
        std::string out = "fast " + std::to_string(fast.bytes) + " bytes in " + std::to_string(fast.blocks) +
                          " blocks\nslow " + std::to_string(slow.bytes) + " bytes in " +
                          std::to_string(slow.blocks) + " blocks\npromoted " + std::to_string(promotions) +
                          ", failed " + std::to_string(failed_promotions) + ", demoted " +
                          std::to_string(demotions) + ", failed " + std::to_string(failed_demotions) + "\n";
        if (left_behind) out += "left behind " + std::to_string(left_behind) + " blocks\n";
        if (last_error) out += "last error: " + last_error.message() + "\n";
        return out;
    }
};

}  // namespace tenure

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tenure {

struct dedup_figures {
    std::size_t   bytes = 0, blocks = 0;                ///< live, as the user sees them
    std::size_t   stored_bytes = 0, stored_blocks = 0;  ///< what the upstream holds for them
    std::uint64_t merged      = 0;                      ///< times that a block was found to be stored already
    std::uint64_t parted      = 0;                      ///< times that a write gave a block its own copy
    std::uint64_t collisions  = 0;  ///< contents of equal hash that differed, or could not be compared
    std::size_t   left_behind = 0;  ///< contents of no block, which the upstream could not free yet

    /// Returns text for a person to read.
    std::string to_text() const {
        std::string out = std::to_string(bytes) + " bytes in " + std::to_string(blocks) + " blocks, stored as " +
                          std::to_string(stored_bytes) + " in " + std::to_string(stored_blocks) + "\nmerged " +
                          std::to_string(merged) + ", parted " + std::to_string(parted) + ", collisions " +
                          std::to_string(collisions) + "\n";
        if (left_behind) out += "left behind " + std::to_string(left_behind) + " blocks\n";
        return out;
    }
};

}  // namespace tenure

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dice.hpp"

/// A random program: commands whose operands choose among whatever there is when they run. So every part of a
/// program is a program, which is what makes it easy to shrink.

enum class op : std::uint8_t {
    open,
    open_below,
    open_bare,
    make,
    make_many,
    make_failing,
    adopt,
    defer,
    grow,
    keep,
    keep_several,
    keep_range,
    transfer,
    transfer_many,
    free,
    free_range,
    free_half,
    close,
    end,
    end_id,
    destroy_id,
    discard,
    detach,
    visit,
    leave,
    enter,
    exit,
    lane,
    lane_close,
    fill,
    move,
    tire,
    trim,
    look,
    clear,
    give_all,
    take_back,
    own,
    disown,
    all_but,
    change,
    count,
};

inline constexpr std::array<char const*, static_cast<std::size_t>(op::count)> op_names{
    "open",       "open_below", "open_bare", "make",         "make_many",  "make_failing", "adopt",
    "defer",      "grow",       "keep",      "keep_several", "keep_range", "transfer",     "transfer_many",
    "free",       "free_range", "free_half", "close",        "end",        "end_id",       "destroy_id",
    "discard",    "detach",     "visit",     "leave",        "enter",      "exit",         "lane",
    "lane_close", "fill",       "move",      "tire",         "trim",       "look",         "clear",
    "give_all",   "take_back",  "own",       "disown",       "all_but",    "change"};

struct command {
    op            what;
    std::uint32_t a, b, c;
};
using program = std::vector<command>;

/// Each program does a few things often, some seldom and some never: mixed evenly, all programs would be alike, and
/// no batch would ever get old (swarm testing: Groce et al., ISSTA 2012).
inline program random_program(dice& d, std::size_t length) {
    static constexpr std::array<unsigned, op_names.size()> usual{12, 6, 4, 60, 12, 3, 3, 3, 4, 16, 4, 6, 10, 2,
                                                                 16, 5, 3, 14, 4,  3, 2, 2, 4, 3,  4, 2, 3,  3,
                                                                 3,  1, 6, 1,  1,  4, 4, 4, 5, 4,  3, 5, 4};
    std::array<unsigned, op_names.size()>                  weights{};
    unsigned                                               sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
        static constexpr unsigned factor[]{0, 1, 2, 2, 4, 12};
        weights[i] = usual[i] * factor[d.below(6)];
        if (i == static_cast<std::size_t>(op::make) || i == static_cast<std::size_t>(op::open))
            weights[i] += usual[i];
        sum += weights[i];
    }
    program p;
    p.reserve(length);
    while (p.size() < length) {
        std::uint64_t at = d.below(sum);
        std::size_t   i  = 0;
        while (at >= weights[i]) at -= weights[i++];
        std::uint64_t const x = d(), y = d();
        p.push_back({static_cast<op>(i), static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(x >> 32),
                     static_cast<std::uint32_t>(y)});
    }
    return p;
}

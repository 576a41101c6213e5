// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#include "callgrind.hpp"

#include <cstdio>

#include <valgrind/callgrind.h>

namespace bench {

void start_count() {
    if (!RUNNING_ON_VALGRIND) std::fputs("bench: this counts under valgrind --tool=callgrind only\n", stderr);
    CALLGRIND_ZERO_STATS;
}

void dump_count(std::string const& name) { CALLGRIND_DUMP_STATS_AT(name.c_str()); }

}  // namespace bench

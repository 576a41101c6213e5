// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

namespace bench {

/// Forgets what callgrind has counted so far.
void start_count();

/// Writes what it counted since, under a name. Neither does anything without callgrind.
void dump_count(std::string const& name);

}  // namespace bench

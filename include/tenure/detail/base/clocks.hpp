// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

// The durations and clocks of <chrono>. All of it brings calendars, and streams for them: 8 % of what it costs to
// compile a file with a batch. <mutex> waits for durations, and has them without.
#include <mutex>

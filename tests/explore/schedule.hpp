// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

/// Runs the threads of a program one at a time, in an order that a seed decides: what fails once fails again with
/// the same seed.
///
/// The program is compiled with -fsanitize=thread, which puts a call in the place of every atomic operation, and
/// linked with schedule.cpp instead of ThreadSanitizer's runtime. There, and at every mutex, condition variable,
/// futex, sleep and yield, another thread may go on. Blocked threads are known, so that a deadlock is noticed at
/// once; time is virtual and passes when all threads wait for it. Interleavings are those of a sequentially
/// consistent machine: what a weaker order of memory allows besides is for ThreadSanitizer to find.
namespace explore {

/// Starts scheduling with the calling thread. Threads that scheduled threads create are scheduled as well.
///
/// Seeds choose between random walks with long and short gaps, and priorities with few points of change (Burckhardt
/// et al., "A randomized scheduler with probabilistic guarantees of finding bugs", ASPLOS 2010).
void begin(std::uint64_t seed);

/// Lets the calling thread, and those that wait for it, go on as the system likes. For the end of a program.
void end() noexcept;

/// Points at which another thread might have gone on, so far.
std::uint64_t steps() noexcept;

}  // namespace explore

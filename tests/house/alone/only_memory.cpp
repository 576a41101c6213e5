// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/only_memory.hpp>

int main() { return tenure::only_memory<int> ? 0 : 1; }

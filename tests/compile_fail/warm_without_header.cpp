// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// error: include <tenure/warm.hpp>

#include <tenure/registry.hpp>
#ifdef TENURE_COMPILES
#include <tenure/warm.hpp>
#endif

void warm(tenure::registry& registry) { registry.warm(1 << 20); }

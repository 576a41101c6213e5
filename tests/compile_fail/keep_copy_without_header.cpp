// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// error: include <tenure/keep_copy.hpp>

#include <tenure/batch_scope.hpp>
#ifdef TENURE_COMPILES
#include <tenure/keep_copy.hpp>
#endif

void copy(tenure::batch_scope& batch, tenure::handle<int> h) { batch.keep_copy(h); }

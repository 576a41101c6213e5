// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// error: include <tenure/checkpoints.hpp>

#include <tenure/batch_scope.hpp>
#ifdef TENURE_COMPILES
#include <tenure/checkpoints.hpp>
#endif

void undo(tenure::batch_scope& batch) { batch.checkpoint(); }

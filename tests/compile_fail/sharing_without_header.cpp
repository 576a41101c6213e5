// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// error: include <tenure/sharing.hpp>

#include <tenure/batch_scope.hpp>
#ifdef TENURE_COMPILES
#include <tenure/sharing.hpp>
#endif

void share(tenure::batch_scope& batch, tenure::handle<int> h, tenure::batch_id with) { batch.share(h, with); }

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A header of the user's that only names tenure's types.

#include <tenure/fwd.hpp>

struct path;
void                 visit(tenure::batch_scope& request, tenure::handle<path> start);
tenure::handle<path> shortest(tenure::registry& paths, tenure::batch_id below,
                              tenure::buffer<float> const& weights);

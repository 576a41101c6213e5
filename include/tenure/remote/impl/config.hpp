// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

/// Marks what <tenure/remote/src.hpp> has for the whole program if its sources define TENURE_SEPARATE_REMOTE, as
/// TENURE_DECL does elsewhere. Who uses no remote store need not compile it.
#ifdef TENURE_SEPARATE_REMOTE
#define TENURE_REMOTE_DECL
#else
#define TENURE_REMOTE_DECL inline
#endif

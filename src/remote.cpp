// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// The library tenure::remote, and what a build without CMake compiles beside its own sources, all of them with
// -DTENURE_SEPARATE -DTENURE_SEPARATE_REMOTE.
#include <tenure/remote/src.hpp>

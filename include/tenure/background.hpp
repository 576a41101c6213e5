// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <tenure/batch_scope.hpp>
#include <tenure/registry.hpp>

// Opt-in: batches whose destructors a thread of the registry runs: reclamation::background. <tenure/tenure.hpp> has
// it.

#ifndef TENURE_SEPARATE
#include <tenure/impl/background.ipp>
#endif

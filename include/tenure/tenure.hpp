// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

// Everything that needs no more than Boost.System's headers.

#include <tenure/batch.hpp>
#include <tenure/batch_scope.hpp>
#include <tenure/derived.hpp>
#include <tenure/detail/gdb.hpp>
#include <tenure/error.hpp>
#include <tenure/handle.hpp>
#include <tenure/lane.hpp>
#include <tenure/only_memory.hpp>
#include <tenure/registry.hpp>
#include <tenure/sharing.hpp>
#include <tenure/snapshot.hpp>
#include <tenure/version.hpp>

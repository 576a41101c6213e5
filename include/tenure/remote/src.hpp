// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

// The functions that remote/client.hpp and remote/server.hpp only declare where TENURE_SEPARATE_REMOTE is defined.
// One source of such a program includes this, or links tenure::remote, which has it.

#ifndef TENURE_SEPARATE_REMOTE
#include <tenure/remote/src.hpp is for programs that define TENURE_SEPARATE_REMOTE in all their sources>
#endif

#include <tenure/remote/impl/client.ipp>
#include <tenure/remote/impl/server.ipp>

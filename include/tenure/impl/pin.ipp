// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/detail/uses/pin_guard.ipp>
#include <tenure/impl/core.ipp>
#include <tenure/pin.hpp>

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/buffer.hpp>
#include <tenure/detail/buffers/buffer_calls.ipp>
#include <tenure/impl/core.ipp>
#include <tenure/impl/lane.ipp>

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/derived.hpp>
#include <tenure/detail/buffers/derive.ipp>
#include <tenure/impl/buffer.ipp>
#include <tenure/impl/core.ipp>
#include <tenure/impl/current.ipp>

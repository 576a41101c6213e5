// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <tenure/device/scheduler/concept.hpp>
#include <tenure/device/scheduler/device_pool.hpp>
#include <tenure/device/scheduler/memory_aware.hpp>
#include <tenure/device/scheduler/memory_blind.hpp>
#include <tenure/device/scheduler/memory_source.hpp>

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <tenure/fleet/memory_manager.hpp>
#include <tenure/fleet/policies.hpp>
#include <tenure/fleet/replicas.hpp>
#include <tenure/fleet/store_group.hpp>

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/fleet/policies/fill_new_store.hpp>
#include <tenure/fleet/policies/keep_replicas.hpp>
#include <tenure/fleet/policies/promote_demanded.hpp>
#include <tenure/fleet/policies/rebalance.hpp>
#include <tenure/fleet/policies/reduce_replicas.hpp>
#include <tenure/fleet/policies/relieve_full_stores.hpp>
#include <tenure/fleet/policies/retire_store.hpp>

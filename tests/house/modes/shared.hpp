// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/fwd.hpp>

tenure::handle<int> kept_elsewhere(int n);

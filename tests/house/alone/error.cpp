// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/error.hpp>

int main() { return tenure::error(tenure::errc::stale_handle).code() == tenure::errc::stale_handle ? 0 : 1; }

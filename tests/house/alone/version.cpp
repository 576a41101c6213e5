// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/version.hpp>

int main() { return TENURE_VERSION_MAJOR >= 0 ? 0 : 1; }

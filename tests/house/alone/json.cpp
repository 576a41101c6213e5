// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/json.hpp>

int main() { return tenure::snapshot().to_json().empty() ? 1 : 0; }

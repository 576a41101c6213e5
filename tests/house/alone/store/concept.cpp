// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/store/concept.hpp>

int main() { return tenure::backing_store<int> ? 1 : 0; }

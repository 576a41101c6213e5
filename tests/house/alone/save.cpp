// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/save.hpp>

int main() { return sizeof(tenure::durable_mmap_store) ? 0 : 1; }

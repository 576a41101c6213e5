// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/registry.hpp>

int main() {
    tenure::registry r;
    r.end_batch(r.new_batch());
    return r.leak_report().empty() ? 0 : 1;
}

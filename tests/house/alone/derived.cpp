// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/derived.hpp>

int main() {
    tenure::buffer<int> const nothing;
    return nothing.alive() ? 1 : 0;
}

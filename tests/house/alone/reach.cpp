// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/reach.hpp>

int main() {
    tenure::handle<int> const nothing;
    return nothing.alive() ? 1 : 0;
}

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/buffer.hpp>

int main() {
    tenure::buffer<int> const nothing;
    try {
        nothing.write(0, {});
    } catch (tenure::error const&) {
        return nothing.alive() ? 1 : 0;
    }
    return 1;
}

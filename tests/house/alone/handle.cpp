// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/handle.hpp>

int main() {
    tenure::handle<int> const nothing;
    try {
        static_cast<void>(nothing.owner());
    } catch (tenure::error const&) {
        return nothing.alive() ? 1 : 0;
    }
    return 1;
}

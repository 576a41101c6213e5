// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/warm.hpp>

int main() {
    tenure::registry r;
    return r.warm(1 << 20) >= 1 << 20 && r.try_warm(1 << 20).value() == 0 ? 0 : 1;
}

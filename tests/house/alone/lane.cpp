// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/lane.hpp>

int main() {
    void (*const use)(tenure::lane&) = [](tenure::lane& l) { l.make<int>(1); };
    return use ? 0 : 1;
}

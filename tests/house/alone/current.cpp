// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/current.hpp>

int main() {
    auto const made = tenure::make<int>(1);
    return *made == 1 && tenure::current_batch() == made.owner() ? 0 : 1;
}

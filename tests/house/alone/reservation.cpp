// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/reservation.hpp>

int main() {
    tenure::reservation       none;
    tenure::reservation const copy = none;
    none.release();
    return copy || none.bytes() ? 1 : 0;
}

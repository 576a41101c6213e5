// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <stdexcept>

#include <tenure/raise.hpp>

int main() {
    try {
        tenure::raise(std::runtime_error("said"));
    } catch (std::runtime_error const& e) {
        return e.what()[0] == 's' ? 0 : 1;
    }
}

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/eviction.hpp>

int main() {
    tenure::least_recently_entered const policy;
    return sizeof policy ? 0 : 1;
}

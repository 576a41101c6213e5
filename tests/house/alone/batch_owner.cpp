// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/batch_owner.hpp>

int main() {
    tenure::batch_owner const owner({.name = "a"});
    return owner.id() ? 0 : 1;
}

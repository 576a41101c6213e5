// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/store/any_store.hpp>

int main() {
    tenure::any_store const nothing;
    return nothing ? 1 : 0;
}

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/compact_handle.hpp>

int main() {
    tenure::handle<int> const         none;
    tenure::compact_handle<int> const c = none;
    return c == nullptr && c.expand() == none && tenure::try_compact(none).value() == c ? 0 : 1;
}

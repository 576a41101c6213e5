// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/chunk_size.hpp>

int main() {
    tenure::chunk_size rows("scan rows", 100);
    for (int i = 0; i < 3; ++i) rows.note(rows.items(), std::chrono::milliseconds(1), std::chrono::milliseconds(1));
    return rows.items() > 100 ? 0 : 1;
}

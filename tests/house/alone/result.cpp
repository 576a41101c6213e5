// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/result.hpp>

int main() {
    tenure::result<int> const done = 2, refused = std::make_error_code(std::errc::io_error);
    return done.value() == 2 && !refused && refused.error() == std::errc::io_error ? 0 : 1;
}

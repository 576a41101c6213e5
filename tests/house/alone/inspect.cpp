// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/inspect.hpp>

int main() {
    tenure::registry r;
    auto const       id = r.new_batch({.name = "seen"});
    bool const       is_there =
        r.snapshot().to_text().find("seen") != std::string::npos && r.waits_for(id).empty() && r.usage().held == 0;
    r.end_batch(id);
    return is_there ? 0 : 1;
}

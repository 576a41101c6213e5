// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/format.hpp>

#include <sstream>

int main() {
    std::ostringstream out;
    out << tenure::handle<int>() << tenure::batch_id{1};
    return out.str() == "null#1.0" ? 0 : 1;
}

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/object_info.hpp>

int main() {
    tenure::object_info const o{.name = "one", .of_type = &tenure::detail::identity_of<int>()};
    return o.type() == "int" && o.name == "one" ? 0 : 1;
}

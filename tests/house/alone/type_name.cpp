// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/type_name.hpp>

int main() { return tenure::detail::type_name(typeid(int)).empty() ? 1 : 0; }

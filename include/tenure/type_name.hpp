// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <typeinfo>

#include <cxxabi.h>

namespace tenure::detail {

/// A type's name as C++ spells it. The mangled name where it cannot be demangled.
inline std::string type_name(std::type_info const& type) {
    int                                                                  status = 0;
    std::unique_ptr<char, decltype([](char* p) { std::free(p); })> const name(
        abi::__cxa_demangle(type.name(), nullptr, nullptr, &status));
    return status == 0 ? name.get() : type.name();
}

}  // namespace tenure::detail

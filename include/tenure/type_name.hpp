// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <cstdlib>
#include <string>
#include <string_view>
#include <typeinfo>

#include <cxxabi.h>

namespace tenure::detail {

#ifdef __cpp_rtti
using type_identity = std::type_info;

template <class T>
constexpr type_identity const& identity_of() noexcept {
    return typeid(T);
}

/// Returns a type's name as C++ spells it, or the mangled name if it cannot be demangled.
inline std::string type_name(std::type_info const& type) {
    struct freed {
        char* text;
        ~freed() { std::free(text); }
    } const name{abi::__cxa_demangle(type.name(), nullptr, nullptr, nullptr)};
    return name.text ? name.text : type.name();
}
#else
/// Stands for a std::type_info where there is none (-fno-rtti). Two libraries that hide their symbols have one
/// each, and do not recognise each other's types.
struct type_identity {
    char const* function;

    bool operator==(type_identity const& other) const noexcept { return this == &other; }
};

/// Returns "... [with T = int]" or "... [T = int]".
template <class T>
constexpr char const* function_that_names() noexcept {
    return __PRETTY_FUNCTION__;
}

template <class T>
inline constexpr type_identity identity{function_that_names<T>()};

template <class T>
constexpr type_identity const& identity_of() noexcept {
    return identity<T>;
}

/// Returns a type's name as the compiler spells it.
inline std::string type_name(type_identity const& type) {
    std::string_view text = type.function;
    text.remove_prefix(text.find("T = ") + 4);
    text.remove_suffix(1);
    return std::string(text);
}
#endif

/// Returns the name of the type that pointers of a type lead to: it may be incomplete.
inline std::string pointee_name(type_identity const& pointer) {
    std::string text = type_name(pointer);
    if (text.ends_with('*')) text.pop_back();
    if (text.ends_with(' ')) text.pop_back();
    return text;
}

}  // namespace tenure::detail

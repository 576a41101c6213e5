// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#include "foreign.hpp"

#include <cstdio>
#include <stdexcept>
#include <string>

#include <dlfcn.h>

namespace bench {

foreign_library::foreign_library(char const* path) : handle_{::dlopen(path, RTLD_NOW | RTLD_LOCAL)} {
    // bench/run raises the space that "static TLS block" is about.
    if (!handle_) std::fprintf(stderr, "bench: without this peer: %s\n", ::dlerror());
}

void* foreign_library::address(char const* name) const {
    if (auto const found = ::dlsym(handle_, name)) return found;
    throw std::runtime_error{std::string{"bench: not found in a peer's library: "} + name};
}

}  // namespace bench

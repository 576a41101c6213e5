// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A program that uses tenure and loads a library that does, as its argument says: `plain` or `deepbind`. Whether it
// exports its symbols is for the linker to say.

#include <cstdio>
#include <cstring>

#include <dlfcn.h>

#include "plugin.hpp"

int main(int count, char** words) {
    bool const  deep    = count == 2 && std::strcmp(words[1], "deepbind") == 0;
    void* const library = ::dlopen(PLUGIN_FIRST, RTLD_NOW | RTLD_LOCAL | (deep ? RTLD_DEEPBIND : 0));
    if (!library) {
        std::puts(::dlerror());
        return 2;
    }
    auto* const calls = reinterpret_cast<get_plugin*>(::dlsym(library, "plugin"))();
    bool const  one   = &calls->registry() == &tenure::registry::global();
    std::puts(one ? "one registry" : "two registries");
    return one ? 0 : 1;
}

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A program that does not use tenure, and loads two libraries that do: as an interpreter does. Its argument says
// how it loads the first: `global` or `local`.

#include <cstdio>
#include <cstring>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

using get_place = void const*();

void* library(char const* path, int how) {
    void* const l = ::dlopen(path, RTLD_NOW | how);
    if (!l) std::puts(::dlerror());
    return l;
}

int main(int count, char** words) {
    bool const  global = count == 2 && std::strcmp(words[1], "global") == 0;
    void* const first  = library(PLUGIN_FIRST, global ? RTLD_GLOBAL : RTLD_LOCAL);
    void* const second = library(PLUGIN_SECOND, RTLD_LOCAL);
    if (!first || !second) return 2;
    auto const place = [](void* l) { return reinterpret_cast<get_place*>(::dlsym(l, "plugin_registry"))(); };
    bool const one   = place(first) == place(second);
    ::dlclose(second);
    ::dlclose(first);

    // The handlers of forks, and what runs at exit, were the libraries'.
    ::pid_t const child = ::fork();
    if (child == 0) return 0;
    int status = -1;
    ::waitpid(child, &status, 0);
    std::puts(one ? "one registry" : "two registries");
    return one && status == 0 ? 0 : 1;
}

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cerrno>

#include <dlfcn.h>

#include <tenure/detail/base/config.hpp>

namespace tenure::detail {

/// A module is a program or a shared library that was compiled with these headers. What it makes refers to its
/// code: finalizers, deleters, vtables of stores, handlers of forks and faults, destructors of static objects. A
/// batch, a registry or the system may call any of these after dlclose(3). So a module stays mapped once it is
/// loaded: dlclose() succeeds and unmaps nothing. No call pays for a count or a check.

/// dlopen(3), or null in a program that is linked statically. That loads no library.
[[gnu::weakref("dlopen")]] static void* dlopen_if_linked(char const* path, int how) noexcept;

/// Keeps the library in which `here` lies mapped until the process ends. Does nothing for a program.
TENURE_COLD inline bool stay_mapped(void const* here) noexcept {
    ::Dl_info library;
    if (dlopen_if_linked && ::dladdr(here, &library) && library.dli_fname != program_invocation_name)
        dlopen_if_linked(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    return true;
}

/// One for each module, initialised when the module is loaded.
TENURE_OWN inline bool const stays_mapped = stay_mapped(&stays_mapped);

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cerrno>

#include <dlfcn.h>

#include <tenure/detail/base/config.hpp>

namespace tenure::detail {

/// A module is a program or a shared library that was compiled with these headers. What a module makes refers to
/// its code: finalizers, deleters, vtables of stores, handlers of forks and faults, destructors of static objects.
/// A batch, a registry or the system may call any of these after dlclose(3). So a module stays mapped from the
/// moment it is loaded: dlclose() succeeds and takes nothing away, and no call costs a count or a look.

/// May be null in a program that is linked statically: it loads no library, and needs no such call.
[[gnu::weakref("dlopen")]] static void* dlopen_if_linked(char const* path, int how) noexcept;

/// The library in which `here` lies stays mapped until the process ends. Does nothing to a program.
TENURE_COLD inline bool stay_mapped(void const* here) noexcept {
    ::Dl_info library;
    if (dlopen_if_linked && ::dladdr(here, &library) && library.dli_fname != program_invocation_name)
        dlopen_if_linked(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    return true;
}

/// One a module, initialised when that is loaded.
TENURE_OWN inline bool const stays_mapped = stay_mapped(&stays_mapped);

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <memory>
#include <string>

#include <dlfcn.h>

#include <tenure/error.hpp>

namespace tenure::detail {

/// A library that is loaded when the program runs, so that nothing of it is needed to build or to start the
/// program.
struct loaded_library {
    /// A function of whatever type it is assigned to; null: the library does not have it.
    struct symbol {
        void* address;

        template <class F>
        operator F*() const noexcept {
            return reinterpret_cast<F*>(address);
        }
    };
    struct closer {
        void operator()(void* open) const noexcept { ::dlclose(open); }
    };

    /// Loads a library. Throws device_unavailable: `whose`, and what the loader says.
    loaded_library(std::string const& whose, std::string const& at, int flags = 0)
        : path(at), handle(::dlopen(at.c_str(), RTLD_NOW | RTLD_LOCAL | flags)) {
        if (handle) return;
        char const* const why = ::dlerror();
        raise(error(errc::device_unavailable, whose + ": " + (why ? why : path.c_str())));
    }

    symbol find(char const* name) const noexcept { return {::dlsym(handle.get(), name)}; }

    std::string                   path;
    std::unique_ptr<void, closer> handle;
};

}  // namespace tenure::detail

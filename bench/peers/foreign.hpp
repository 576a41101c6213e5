// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace bench {

/// A shared library whose names stay its own. mimalloc and jemalloc define malloc, free and operator new: linked as
/// usual, either would take the place of glibc's for all peers. Loaded like this neither does, and a call costs
/// what any call into a shared library does: one load and one indirect jump.
class foreign_library {
public:
    /// When it cannot be loaded, says so and why on stderr.
    explicit foreign_library(char const* path);

    explicit operator bool() const noexcept { return handle_ != nullptr; }

    /// Null when there is no library; ends the program when the library lacks the function.
    template <class Function>
    Function* find(char const* name) const {
        return handle_ ? reinterpret_cast<Function*>(address(name)) : nullptr;
    }

private:
    void* address(char const* name) const;

    void* handle_;
};

}  // namespace bench

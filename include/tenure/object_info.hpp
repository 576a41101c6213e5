// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <tenure/detail/base/config.hpp>
#include <tenure/type_name.hpp>

namespace tenure {

/// An object of a batch, as registry::for_each_object tells of it. It may be freed by now.
struct object_info {
    void*       address = nullptr;
    std::size_t bytes   = 0;  ///< in its batch's memory, with header and padding; of what was adopted, the header
    std::string name{};       ///< as registry::name_object said; or empty

    /// Where it was made: return addresses, the innermost first, sixteen at most. The first lies in the function
    /// that called make(), which becomes a part of it; that of an array, or with try_, may be a function of
    /// tenure's. addr2line(1) and Boost.Stacktrace turn an address less one into a line. Empty: it was made while
    /// the registry did not record.
    std::vector<void const*> made_at{};

    /// Returns its type as C++ spells it; as `int[]` of an array.
    std::string type() const { return is_adopted ? detail::pointee_name(*of_type) : detail::type_name(*of_type); }

    /// Returns the place, as backtrace_symbols(3) writes it: "server(_Z6handlev+0x2e)" where the linker was told to
    /// keep names for that (-rdynamic), and then the first that is not tenure's; else "server(+0x4d2e)". Empty if
    /// it is not known.
    std::string place() const;

    bool                         is_adopted = false;
    detail::type_identity const* of_type    = nullptr;  ///< for type(); of what was adopted, a pointer's
};

}  // namespace tenure

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <set>
#include <vector>

#include <unwind.h>

#include <tenure/detail/base/config.hpp>

namespace tenure::detail {

/// Return addresses, the innermost first.
using call_stack = std::vector<void const*>;

/// Returns the calls that led here, but for those behind the one that returns to `caller`; that one alone where
/// they cannot be told. Throws std::bad_alloc. Cost: some 100 ns for each call (Itanium C++ ABI:
/// _Unwind_Backtrace).
TENURE_COLD inline call_stack stack_from(void const* caller) {
    constexpr std::size_t deepest = 16;
    struct walk {
        void const* caller;
        call_stack  found{};
        bool        begun = false;
    } w{caller};
    w.found.reserve(deepest);
    auto const step = [](_Unwind_Context* at, void* arg) {
        auto&       to      = *static_cast<walk*>(arg);
        auto* const address = reinterpret_cast<void const*>(_Unwind_GetIP(at));
        to.begun            = to.begun || address == to.caller;
        if (to.begun && address) to.found.push_back(address);
        return to.found.size() < deepest ? _URC_NO_REASON : _URC_END_OF_STACK;
    };
    _Unwind_Backtrace(step, &w);
    if (w.found.empty()) w.found.push_back(caller);
    return w.found;
}

/// Call stacks, each kept once, for as long as this. Not thread-safe.
class call_stacks {
public:
    /// Throws std::bad_alloc.
    call_stack const& keep(call_stack s) { return *all_.insert(std::move(s)).first; }

private:
    std::set<call_stack> all_;
};

}  // namespace tenure::detail

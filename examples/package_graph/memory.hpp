// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string_view>

#include <tenure/tenure.hpp>

namespace package_graph {

/// Where a query's objects live. It speaks to each such place as to a tenure::batch_scope:
///   batch{options}, batch{below(parent), options}   opens one
///   make<T>(args...) -> ref<T>               an object of this batch
///   keep(refs)                               from now on they are the parent's; a vector of refs, valid afterwards
///   end() -> report                          frees the rest; how many were made, how many freed
///   resource()                               for containers that die with the batch
/// peers.hpp has what a program would do without tenure.
struct tenure_memory {
    static constexpr std::string_view name = "tenure";

    using batch = tenure::batch_scope;
    using below = tenure::below;
    template <class T>
    using ref = tenure::handle<T>;

    /// Gives memory that is free back to the system.
    static void trim() { tenure::registry::global().trim(); }
};

}  // namespace package_graph

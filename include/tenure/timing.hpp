// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <version>

#ifndef __cpp_lib_jthread
#error "tenure/timing.hpp needs std::stop_token: compile with -fexperimental-library, with which libc++ 19 has it"
#endif

#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>

#include <tenure/batch_scope.hpp>
#include <tenure/registry.hpp>

// Opt-in: batch_options::timeout, and cancel(), stop_token() and expire_overdue() of batch_scope, batch_owner and
// registry. <tenure/tenure.hpp> and <tenure/asio.hpp> have it.

namespace tenure::detail {

class deadline_watch;

struct timing_calls {
    TENURE_DECL static void cancel(lane& of, std::uint64_t id) noexcept;
    TENURE_DECL static void cancel(batch_id id) noexcept;
    TENURE_DECL static void cancel(registry& in, batch_id id);

    TENURE_DECL static std::stop_token stop_token(lane& of, std::uint64_t id);
    TENURE_DECL static std::stop_token stop_token(batch_id id);
    TENURE_DECL static std::stop_token stop_token(registry_core& in, batch_id id);

    TENURE_DECL static std::chrono::nanoseconds expire_overdue(registry_core& in) noexcept;

    /// Sets what acts on the deadlines of a registry, until unwatch(). Throws no_feature.
    TENURE_DECL static void watch(registry& of, std::shared_ptr<deadline_watch> const& by);
    TENURE_DECL static void unwatch(registry& of) noexcept;
};

}  // namespace tenure::detail

#ifndef TENURE_SEPARATE
#include <tenure/impl/timing.ipp>
#endif

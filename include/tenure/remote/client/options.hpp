// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <tenure/remote/security.hpp>
#include <tenure/remote/trust.hpp>

namespace tenure {

/// How a remote_store goes about it. All have defaults.
struct client_options {
    /// What the client calls itself, for people who look at the server.
    std::string name{};

    /// What proves to the server that it may: tokens::from_file(path). The first is shown.
    tenure::tokens tokens{};

    /// For endpoints that begin with "tls:": a tls_client, from remote/tls.hpp.
    std::shared_ptr<security> tls{};

    /// After so long any operation has ended, if only with errc::timed_out: also one of many gigabytes.
    std::chrono::milliseconds timeout{30'000};

    /// Of that: to find the server's address, reach it, shake hands and be greeted.
    std::chrono::milliseconds connect_timeout{5'000};

    /// Requests without an answer, at most; the server may allow less.
    std::uint32_t in_flight = 256;

    /// Longer reads and writes are requests of so many bytes each, which go side by side.
    std::uint32_t piece = 1 << 20;

    /// Of small blocks some are fetched before they are asked for, up to so many bytes of a kind; 0: never.
    std::size_t ahead = 1 << 20;
};

}  // namespace tenure

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <string>

#include <benchmark/benchmark.h>

namespace bench {

// What is measured of a server and its client, and of the raw sockets beside them.
inline constexpr std::size_t transfer_bytes = std::size_t{64} << 20;
inline constexpr std::size_t small_bytes    = 4096;
inline constexpr std::size_t small_reads    = 20'000;  ///< a round
inline constexpr std::size_t in_flight      = 64;
inline constexpr std::size_t round_trips    = 2000;  ///< a round
inline constexpr std::size_t buffers_made   = 100'000;
inline constexpr std::size_t buffer_size    = 64;
inline constexpr std::size_t least_mixed    = 64;  ///< the smallest of many sizes

enum class carrier { unix_socket, tcp };

/// Of one side of the wire, for both carriers: "remote/write/unix/raw" and so on.
struct remote_peer {
    char const* name;
    void (*write)(benchmark::State&, carrier);       ///< transfer_bytes, there
    void (*read)(benchmark::State&, carrier);        ///< and back
    void (*reads)(benchmark::State&, carrier);       ///< small_reads, in_flight at a time
    void (*round_trip)(benchmark::State&, carrier);  ///< one after the other
};

inline bool register_remote(remote_peer const& p) {
    for (auto const how : {carrier::unix_socket, carrier::tcp}) {
        auto const add = [&](std::string const& theme, void (*f)(benchmark::State&, carrier)) {
            auto const name = "remote/" + theme + (how == carrier::tcp ? "/tcp/" : "/unix/") + p.name;
            benchmark::RegisterBenchmark(name.c_str(), f, how)->Unit(benchmark::kMillisecond)->UseManualTime();
        };
        if (p.write) add("write", p.write);
        if (p.read) add("read", p.read);
        if (p.reads) add("reads", p.reads);
        if (p.round_trip) add("round_trip", p.round_trip);
    }
    return true;
}

}  // namespace bench

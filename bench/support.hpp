// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include <sys/types.h>

namespace bench {

/// What is made everywhere: one cache line, trivially destructible. Its constructor writes 8 bytes, for every peer
/// the same: enough to touch the line, too little to hide what the making itself costs.
struct object {
    std::uint64_t id;
    std::uint64_t rest[7];

    explicit object(std::uint64_t i) noexcept : id{i} {}
};
static_assert(sizeof(object) == 64);

/// Makes the compiler believe that somebody reads the name of an object, all of it: the pointer, or every word of a
/// handle. In registers: benchmark::DoNotOptimize would send 16-byte names through memory and 8-byte ones not, and
/// its clobber would make every allocator reload its state for each object. An asm that is volatile also keeps a
/// loop from being vectorized, the bare bump pointer's too.
template <class Name>
void use(Name const& name) {
    for (auto const word : std::bit_cast<std::array<std::uint64_t, sizeof(Name) / 8>>(name)) {
        asm volatile("" : : "r"(word));
    }
}

using clock   = std::chrono::steady_clock;
using seconds = std::chrono::duration<double>;

/// What this process, or another one, holds of the machine's memory now.
std::size_t resident_bytes();
std::size_t resident_bytes(::pid_t of);

/// Memory that is there before it is measured, on huge pages where they fit: the best that a fixed buffer can be.
/// Not from malloc, whose own state would then depend on which peer came before.
class warm_buffer {
public:
    explicit warm_buffer(std::size_t bytes);
    ~warm_buffer();
    warm_buffer(warm_buffer const&)            = delete;
    warm_buffer& operator=(warm_buffer const&) = delete;

    std::byte* data() const noexcept { return data_; }

private:
    void*       mapping_;
    std::size_t mapped_;
    std::byte*  data_;
};

}  // namespace bench

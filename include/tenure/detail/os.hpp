// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

namespace tenure::detail {

/// The operating system, as far as slabs need it. Null and false are refusals; errno is the system's.

enum class access { read, read_write };

/// Address space that costs memory only where it is touched. Zero-filled, kept out of core dumps while untouched.
inline void* reserve(std::size_t bytes, access a) noexcept {
    int const protection = a == access::read ? PROT_READ : PROT_READ | PROT_WRITE;
    void*     p          = ::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? nullptr : p;
}

/// The contents are gone and the memory is the system's again; the addresses stay.
inline bool drop_pages(void* p, std::size_t bytes) noexcept { return ::madvise(p, bytes, MADV_DONTNEED) == 0; }

/// Where the system refuses, because a hole would be one mapping too many, it has at least the memory again.
inline void give_back(void* p, std::size_t bytes) noexcept {
    if (::munmap(p, bytes) != 0) drop_pages(p, bytes);
}

/// As reserve(read_write), at a multiple of `alignment` (a power of two, at least a page).
inline void* reserve_aligned(std::size_t bytes, std::size_t alignment) noexcept {
    auto* raw = static_cast<char*>(reserve(bytes + alignment, access::read_write));
    if (!raw) return nullptr;
    auto const        at   = reinterpret_cast<std::uintptr_t>(raw);
    std::size_t const skip = (alignment - at % alignment) % alignment;
    if (skip) give_back(raw, skip);
    if (alignment - skip) give_back(raw + skip + bytes, alignment - skip);
    return raw + skip;
}

inline std::size_t page_bytes() noexcept {
    static auto const n = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    return n;
}

inline bool make_writable(void* p, std::size_t bytes) noexcept {
    auto const        at   = reinterpret_cast<std::uintptr_t>(p);
    std::size_t const page = page_bytes();
    auto const        from = at / page * page;
    auto const        to   = (at + bytes + page - 1) / page * page;
    return ::mprotect(reinterpret_cast<void*>(from), to - from, PROT_READ | PROT_WRITE) == 0;
}

/// A hint: a kernel without transparent huge pages refuses it, and nothing is lost.
inline void ask_huge_pages(void* p, std::size_t bytes) noexcept {
    [[maybe_unused]] int const refused = ::madvise(p, bytes, MADV_HUGEPAGE);
}

/// Monotonic nanoseconds on the kernel's tick (1-4 ms): a quarter of the price of the exact clock.
inline std::uint64_t coarse_now() noexcept {
    ::timespec t;
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(t.tv_nsec);
}

}  // namespace tenure::detail

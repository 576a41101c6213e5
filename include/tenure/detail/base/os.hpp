// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <tenure/detail/base/config.hpp>

namespace tenure::detail {

/// The operating system, as far as slabs need it. A function that the system refuses returns null or false, and
/// errno is the system's.

enum class access { read, read_write };

/// Reserves address space that takes memory only where it is touched. It is zero-filled, and stays out of core
/// dumps while untouched.
inline void* reserve(std::size_t bytes, access a) noexcept {
    int const protection = a == access::read ? PROT_READ : PROT_READ | PROT_WRITE;
    void*     p          = ::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? nullptr : p;
}

/// Drops the contents and returns the memory to the system. The addresses stay reserved.
inline bool drop_pages(void* p, std::size_t bytes) noexcept { return ::madvise(p, bytes, MADV_DONTNEED) == 0; }

/// Returns memory and addresses to the system. If the system refuses, because the hole would be one mapping too
/// many, it gets at least the memory.
inline void give_back(void* p, std::size_t bytes) noexcept {
    if (::munmap(p, bytes) != 0) drop_pages(p, bytes);
}

/// Reserves read-write space as reserve() does, at a multiple of `alignment` (a power of two, at least a page).
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

/// Asks for huge pages. This is a hint: a kernel without transparent huge pages refuses it, and nothing is lost.
inline void ask_huge_pages(void* p, std::size_t bytes) noexcept {
    [[maybe_unused]] int const refused = ::madvise(p, bytes, MADV_HUGEPAGE);
}

/// Maps other memory over addresses that the caller owns, in one step: a thread that reads there meanwhile reads
/// either the old memory or the new. Returns false, and changes nothing, if the process has too many mappings
/// (vm.max_map_count).
inline bool map_at(void* p, std::size_t bytes, int flags, int fd, std::uint64_t offset) noexcept {
    int const how = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE | flags;
#if TENURE_TSAN  // ThreadSanitizer takes an mmap() for a write to all of it
    return ::syscall(SYS_mmap, p, bytes, PROT_READ | PROT_WRITE, how, fd, offset) != -1;
#else
    return ::mmap(p, bytes, PROT_READ | PROT_WRITE, how, fd, static_cast<::off_t>(offset)) != MAP_FAILED;
#endif
}
inline bool map_file_at(void* p, std::size_t bytes, int fd, std::uint64_t offset) noexcept {
    return map_at(p, bytes, 0, fd, offset);
}
inline bool map_anonymous_at(void* p, std::size_t bytes) noexcept { return map_at(p, bytes, MAP_ANONYMOUS, -1, 0); }

inline bool move_pages(void* from, std::size_t bytes, void* to) noexcept {
    return ::mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED;
}

inline bool protect(void* p, std::size_t bytes, int protection) noexcept {
    return ::mprotect(p, bytes, protection) == 0;
}

/// Makes memory writable again whose protection was changed as one piece. That adds no mapping, so the system
/// refuses only while it is short of memory for a moment; the call then retries.
inline void unprotect(void* p, std::size_t bytes) noexcept {
    for (int i = 0; i < 1000 && !protect(p, bytes, PROT_READ | PROT_WRITE); ++i) ::sched_yield();
}

/// Reads all pages that are not yet in memory. A kernel before 5.14 cannot wait for them; it only begins to read.
/// Returns false if a page could not be read.
inline bool populate(void* p, std::size_t bytes) noexcept {
#if defined(MADV_POPULATE_READ)
    if (::madvise(p, bytes, MADV_POPULATE_READ) == 0) return true;
    if (errno != EINVAL) return false;
#endif
    return ::madvise(p, bytes, MADV_WILLNEED) == 0;
}

/// Maps a part of a file, as it is now, while this lives. Converts to false if the part cannot be mapped or read.
class mapped_part {
public:
    mapped_part(int fd, std::uint64_t offset, std::size_t bytes) noexcept
        : begin_(::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, static_cast<::off_t>(offset))), bytes_(bytes) {
        readable_ = begin_ != MAP_FAILED && populate(begin_, bytes);
    }
    ~mapped_part() {
        if (begin_ != MAP_FAILED) ::munmap(begin_, bytes_);
    }
    mapped_part(mapped_part const&)            = delete;
    mapped_part& operator=(mapped_part const&) = delete;

    explicit operator bool() const noexcept { return readable_; }
    void*    begin() const noexcept { return begin_; }

private:
    void*       begin_;
    std::size_t bytes_;
    bool        readable_ = false;
};

/// Gives a private mapping of a file its own copy of every page, as a write to each would. The mapping then needs
/// the file no more. `no`: a page cannot be read, or memory is full. `unknown`: the kernel (before 5.14) cannot do
/// it, or the memory is read-only just now.
enum class populated { yes, no, unknown };
inline populated populate_private([[maybe_unused]] void* p, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(MADV_POPULATE_WRITE)
    if (::madvise(p, bytes, MADV_POPULATE_WRITE) == 0) return populated::yes;
    if (errno != EINVAL) return populated::no;
#endif
    return populated::unknown;
}

/// Gives every page its memory, as a write to each would, and may write to them. Returns false if memory is full. A
/// kernel before 5.14 does not tell that, but ends the process.
TENURE_OPTIMISTIC inline bool touch_pages(void* p, std::size_t bytes) noexcept {
    if (populated const done = populate_private(p, bytes); done != populated::unknown)
        return done == populated::yes;
    std::size_t const page = page_bytes();
    auto* const       at   = static_cast<char volatile*>(p);
    for (std::size_t i = 0; i < bytes; i += page) at[i] = 0;
    return true;
}

/// Copies memory, even if checking tools regard it as inaccessible. Both addresses and the size are multiples of 8.
TENURE_OPTIMISTIC inline void copy_unchecked(void* to, void const* from, std::size_t bytes) noexcept {
    auto* const                out = static_cast<std::uint64_t*>(to);
    auto const volatile* const in  = static_cast<std::uint64_t const volatile*>(from);
    for (std::size_t i = 0; i < bytes / 8; ++i) out[i] = in[i];
}

/// Writes as pwrite(2) does, all of it, from memory that checking tools may regard as freed. Returns false, with
/// errno set, on failure.
inline bool write_unchecked(int fd, void const* p, std::size_t bytes, std::uint64_t offset) noexcept {
    auto const* at = static_cast<char const*>(p);
    while (bytes > 0) {
        long const n = ::syscall(SYS_pwrite64, fd, at, bytes, offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        at += n;
        bytes -= static_cast<std::size_t>(n);
        offset += static_cast<std::uint64_t>(n);
    }
    return true;
}

/// Returns the nanoseconds of a clock of the kernel's.
inline std::uint64_t time_of(::clockid_t clock) noexcept {
    ::timespec t;
    ::clock_gettime(clock, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(t.tv_nsec);
}

/// Returns monotonic nanoseconds.
inline std::uint64_t exact_now() noexcept { return time_of(CLOCK_MONOTONIC); }

/// Returns monotonic nanoseconds at the kernel's tick (1-4 ms). It costs a quarter of the exact clock.
inline std::uint64_t coarse_now() noexcept { return time_of(CLOCK_MONOTONIC_COARSE); }

}  // namespace tenure::detail

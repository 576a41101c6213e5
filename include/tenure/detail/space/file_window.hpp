// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <sys/mman.h>

#include <tenure/detail/base/os.hpp>
#include <tenure/detail/space/extent_pool.hpp>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace tenure::detail {

/// A range of addresses in which byte n is byte n of a file. It is one mapping, made once, longer than the file
/// will ever be. So an extent has an address without a call, for as long as it is needed, and the number of
/// mappings stays far from vm.max_map_count. It costs address space, and page tables for what is touched.
///
/// Nothing may be touched in holes or beyond the end of the file. A forked child does not have the mapping.
class file_window {
public:
    static constexpr std::size_t alignment = std::size_t{1} << 30;  ///< of its begin, to align extents

    file_window() noexcept                     = default;
    file_window(file_window const&)            = delete;
    file_window& operator=(file_window const&) = delete;
    ~file_window() {
        if (begin_) give_back(begin_, bytes_);
    }

    /// Reserves `bytes`, or as much of it as there are addresses for, at least 1 GiB. Maps the file there if
    /// `shared`. Returns false, with errno set, on failure.
    bool open(int fd, std::size_t bytes, bool shared = true) noexcept {
        bytes = std::max(bytes / alignment * alignment, alignment);
        for (; bytes >= alignment; bytes = bytes / 2 / alignment * alignment) {
            void* const p = reserve_aligned(bytes);
            if (!p) continue;
            begin_ = static_cast<std::byte*>(p);
            bytes_ = bytes;
            if (!shared || share(fd, {0, bytes})) return true;
            int const why = errno;
            give_back(p, bytes);
            begin_ = nullptr;
            errno  = why;
            return false;
        }
        errno = ENOMEM;
        return false;
    }

    std::byte*    at(std::uint64_t offset) const noexcept { return begin_ + offset; }
    std::uint64_t offset_of(std::byte const* p) const noexcept { return static_cast<std::uint64_t>(p - begin_); }
    std::size_t   bytes() const noexcept { return bytes_; }

    /// Maps that range of the file, so that what is written there goes to the file. Returns false, with errno set,
    /// on failure.
    bool share(int fd, extent_in_file e) noexcept {
        return map(fd, e, e.offset, MAP_SHARED, PROT_READ | PROT_WRITE) &&
               ::madvise(at(e.offset), e.bytes, MADV_DONTFORK) == 0;
    }

    /// Maps the file, from `from` on, over that range. What is written there stays in this process's memory.
    /// Returns false, with errno set, on failure.
    bool copy_on_write(int fd, extent_in_file e, std::uint64_t from) noexcept {
        return map(fd, e, from, MAP_PRIVATE | MAP_NORESERVE, PROT_READ | PROT_WRITE);
    }
    bool read_only(int fd, extent_in_file e, std::uint64_t from) noexcept {
        return map(fd, e, from, MAP_PRIVATE, PROT_READ);
    }

    /// Makes all addresses inaccessible. A later use gets a SIGSEGV and not another owner's bytes.
    void close() noexcept {
        if (!begin_) return;
        [[maybe_unused]] void* const same =
            ::mmap(begin_, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    }

    /// Makes all pages of a range present at once, for half of what it costs to touch them one by one. A hint.
    void populate(extent_in_file e) noexcept {
        [[maybe_unused]] int const refused = ::madvise(at(e.offset), e.bytes, MADV_POPULATE_WRITE);
    }

    /// Makes all pages of a range present at once for reading. A hint.
    void populate_read(extent_in_file e) noexcept {
        [[maybe_unused]] int const refused = ::madvise(at(e.offset), e.bytes, MADV_POPULATE_READ);
    }

private:
    static void* reserve_aligned(std::size_t bytes) noexcept {
        auto* const raw = static_cast<char*>(reserve_nothing(bytes + alignment));
        if (!raw) return nullptr;
        std::size_t const skip = (alignment - reinterpret_cast<std::uintptr_t>(raw) % alignment) % alignment;
        if (skip) give_back(raw, skip);
        give_back(raw + skip + bytes, alignment - skip);
        return raw + skip;
    }
    static void* reserve_nothing(std::size_t bytes) noexcept {
        void* const p = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        return p == MAP_FAILED ? nullptr : p;
    }
    bool map(int fd, extent_in_file e, std::uint64_t from, int flags, int protection) noexcept {
        return ::mmap(at(e.offset), e.bytes, protection, flags | MAP_FIXED, fd, static_cast<off_t>(from)) !=
               MAP_FAILED;
    }

    std::byte*  begin_ = nullptr;
    std::size_t bytes_ = 0;
};

}  // namespace tenure::detail

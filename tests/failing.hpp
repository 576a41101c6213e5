// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

// Include this before anything of tenure, in the one source file of a program: from then on tenure's allocations
// and mappings are counted, and the nth of them can be made to fail. Mappings are caught by name, so that
// sanitizers, which have their own mmap, see nothing of it; tenure is headers, so no other object file has them.

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>

#include <sys/mman.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FAILING_ALLOCATIONS 0  // its operator new cannot be replaced: allocations are counted, but do not fail
#include <sanitizer/allocator_interface.h>
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define FAILING_ALLOCATIONS 0
#include <sanitizer/allocator_interface.h>
#endif
#ifndef FAILING_ALLOCATIONS
#define FAILING_ALLOCATIONS 1
#endif

namespace failing {

enum kind : unsigned { allocation = 1, mapping = 2, constructor = 4 };

/// What fails next, and what has happened so far. Constant-initialised: it works before main, too.
struct control {
    std::atomic<unsigned> kinds{0};
    std::atomic<long>     left{0};  ///< of these kinds, until one fails
    std::atomic<bool>     failed{false};
    std::atomic<size_t>   least{0};        ///< bytes: smaller allocations do not fail, and do not count for `left`
    std::atomic<long>     allocations{0};  ///< ever
    std::atomic<long>     blocks{0};       ///< allocated and not freed
    std::atomic<long>     mappings{0};     ///< calls, ever
    std::atomic<long>     mapped{0};       ///< bytes
};
inline constinit control           now;
inline constinit thread_local bool spared = false;  ///< nothing that this thread does fails

/// The nth of these kinds fails from here on, once.
inline void arm(unsigned kinds, long nth) {
    now.failed = false;
    now.left   = nth;
    now.kinds  = kinds;
}
inline void disarm() { now.kinds = 0; }

inline bool due(kind k) noexcept {
    if (spared || !(now.kinds.load() & k) || now.left.fetch_sub(1) != 1) return false;
    now.failed = true;
    return true;
}

inline void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
    ++now.allocations;
    if (bytes >= now.least && due(allocation)) return nullptr;
    void* const p = alignment > alignof(std::max_align_t)
                        ? std::aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1))
                        : std::malloc(bytes ? bytes : 1);
    if (p) ++now.blocks;
    return p;
}

inline void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
    if (void* const p = allocate(bytes, alignment)) return p;
    throw std::bad_alloc();
}

inline void deallocate(void* p) noexcept {
    if (p) --now.blocks;
    std::free(p);
}

inline void* map(void* at, std::size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
    ++now.mappings;
    if (due(mapping)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    void* const p = ::mmap(at, bytes, protection, flags, file, offset);
    if (p != MAP_FAILED) now.mapped += static_cast<long>(bytes);
    return p;
}

inline int unmap(void* p, std::size_t bytes) noexcept {
    now.mapped -= static_cast<long>(bytes);
    return ::munmap(p, bytes);
}

inline int protect(void* p, std::size_t bytes, int protection) noexcept {
    ++now.mappings;
    if (!due(mapping)) return ::mprotect(p, bytes, protection);
    errno = ENOMEM;
    return -1;
}

inline int advise(void* p, std::size_t bytes, int advice) noexcept {
    ++now.mappings;
    if (!due(mapping)) return ::madvise(p, bytes, advice);
    errno = EINVAL;
    return -1;
}

}  // namespace failing

#if FAILING_ALLOCATIONS
void* operator new(std::size_t n) { return failing::allocate_or_throw(n, 0); }
void* operator new[](std::size_t n) { return failing::allocate_or_throw(n, 0); }
void* operator new(std::size_t n, std::nothrow_t const&) noexcept { return failing::allocate(n, 0); }
void* operator new[](std::size_t n, std::nothrow_t const&) noexcept { return failing::allocate(n, 0); }
void* operator new(std::size_t n, std::align_val_t a) {
    return failing::allocate_or_throw(n, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t n, std::align_val_t a) {
    return failing::allocate_or_throw(n, static_cast<std::size_t>(a));
}
void* operator new(std::size_t n, std::align_val_t a, std::nothrow_t const&) noexcept {
    return failing::allocate(n, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t n, std::align_val_t a, std::nothrow_t const&) noexcept {
    return failing::allocate(n, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept { failing::deallocate(p); }
void operator delete[](void* p) noexcept { failing::deallocate(p); }
void operator delete(void* p, std::size_t) noexcept { failing::deallocate(p); }
void operator delete[](void* p, std::size_t) noexcept { failing::deallocate(p); }
void operator delete(void* p, std::nothrow_t const&) noexcept { failing::deallocate(p); }
void operator delete[](void* p, std::nothrow_t const&) noexcept { failing::deallocate(p); }
void operator delete(void* p, std::align_val_t) noexcept { failing::deallocate(p); }
void operator delete[](void* p, std::align_val_t) noexcept { failing::deallocate(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { failing::deallocate(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { failing::deallocate(p); }
#else
inline int const hooks_installed = __sanitizer_install_malloc_and_free_hooks(
    [](void const volatile*, std::size_t) { ++failing::now.allocations, ++failing::now.blocks; },
    [](void const volatile* p) { failing::now.blocks -= p != nullptr; });
#endif

// os.hpp calls these as ::mmap and so on.
inline void* failing_mmap(void* at, std::size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
    return failing::map(at, bytes, protection, flags, file, offset);
}
inline int failing_munmap(void* p, std::size_t bytes) noexcept { return failing::unmap(p, bytes); }
inline int failing_mprotect(void* p, std::size_t bytes, int prot) noexcept {
    return failing::protect(p, bytes, prot);
}
inline int failing_madvise(void* p, std::size_t bytes, int advice) noexcept {
    return failing::advise(p, bytes, advice);
}
#define mmap failing_mmap
#define munmap failing_munmap
#define mprotect failing_mprotect
#define madvise failing_madvise

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <new>

namespace tenure::detail::remote {

/// Memory for what Asio keeps of an operation that is started again and again. Not thread-safe: one thread at a
/// time uses it, as with the operation.
class io_memory {
public:
    io_memory()                            = default;
    io_memory(io_memory const&)            = delete;
    io_memory& operator=(io_memory const&) = delete;

    void* take(std::size_t bytes) {
        if (bytes <= place_bytes) {
            for (place& p : places_) {
                if (p.used) continue;
                p.used = true;
                return p.bytes;
            }
        }
        return ::operator new(bytes);
    }
    void give(void* memory) noexcept {
        for (place& p : places_) {
            if (p.bytes != memory) continue;
            p.used = false;
            return;
        }
        ::operator delete(memory);
    }

private:
    static constexpr std::size_t place_bytes = 512;
    struct place {
        alignas(std::max_align_t) std::byte bytes[place_bytes];
        bool used = false;
    };
    place places_[3];
};

template <class T>
class io_allocator {
public:
    using value_type = T;

    explicit io_allocator(io_memory& m) noexcept : memory_(&m) {}
    template <class U>
    io_allocator(io_allocator<U> const& other) noexcept : memory_(other.memory()) {}

    T*         allocate(std::size_t n) { return static_cast<T*>(memory_->take(n * sizeof(T))); }
    void       deallocate(T* p, std::size_t) noexcept { memory_->give(p); }
    io_memory* memory() const noexcept { return memory_; }

    template <class U>
    friend bool operator==(io_allocator const& a, io_allocator<U> const& b) noexcept {
        return a.memory() == b.memory();
    }

private:
    io_memory* memory_;
};

/// A handler that calls `f` and gives Asio memory from `memory`.
template <class F>
struct with_memory {
    using allocator_type = io_allocator<void>;

    io_memory* memory;
    F          f;

    allocator_type get_allocator() const noexcept { return allocator_type(*memory); }

    template <class... Args>
    void operator()(Args&&... args) {
        f(static_cast<Args&&>(args)...);
    }
};
template <class F>
with_memory(io_memory*, F) -> with_memory<F>;

}  // namespace tenure::detail::remote

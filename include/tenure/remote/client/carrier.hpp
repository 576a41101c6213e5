// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <iterator>
#include <memory>
#include <memory_resource>
#include <span>
#include <system_error>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/error.hpp>

#include <tenure/error.hpp>
#include <tenure/remote/transport.hpp>

namespace tenure::detail::remote {

/// Memory for what Asio keeps of an operation that is started again and again. Not thread-safe: one thread at a
/// time uses it, as with the operation.
class io_memory final : public std::pmr::memory_resource {
    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
        auto* const p = std::ranges::find(places_, false, &place::used);
        if (p == std::end(places_) || bytes > sizeof p->bytes || alignment > alignof(std::max_align_t))
            return std::pmr::new_delete_resource()->allocate(bytes, alignment);
        p->used = true;
        return p->bytes;
    }
    void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
        auto* const p = std::ranges::find(places_, memory, [](place& q) -> void* { return q.bytes; });
        if (p == std::end(places_)) return std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
        p->used = false;
    }
    bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override { return this == &other; }

    struct place {
        alignas(std::max_align_t) std::byte bytes[512];
        bool used = false;
    };
    place places_[3];
};

/// Returns a handler that calls `f` and gives Asio memory from `memory`.
template <class F>
auto with_memory(io_memory& memory, F f) {
    return boost::asio::bind_allocator(std::pmr::polymorphic_allocator<>(&memory), std::move(f));
}

/// An eventfd by which one thread ends the wait of another.
class wake_up {
public:
    /// Throws what the system says.
    wake_up() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
        if (fd_ < 0) throw error(std::error_code(errno, std::system_category()), "eventfd");
    }
    ~wake_up() { ::close(fd_); }
    wake_up(wake_up const&)            = delete;
    wake_up& operator=(wake_up const&) = delete;

    // set() and clear() cannot fail, because the number stays small.
    void set() noexcept { [[maybe_unused]] int const done = ::eventfd_write(fd_, 1); }
    void clear() noexcept {
        std::uint64_t              n;
        [[maybe_unused]] int const done = ::eventfd_read(fd_, &n);
    }

    /// Waits until the socket can be read (or written, if `wanted`), another thread calls set(), or `patience` is
    /// over. Returns whether the socket can be read.
    bool wait(int socket, bool wanted, std::chrono::nanoseconds patience) noexcept {
        ::pollfd which[] = {{socket, static_cast<short>(wanted ? POLLIN | POLLOUT : POLLIN), 0}, {fd_, POLLIN, 0}};
        auto const       s = std::chrono::duration_cast<std::chrono::seconds>(patience);
        ::timespec const time{std::max<std::time_t>(s.count(), 0), std::max<long>((patience - s).count(), 0)};
        return ::ppoll(which, 2, &time, nullptr) > 0 && (which[0].revents & ~POLLOUT) != 0;
    }

private:
    int const fd_;
};

/// A connection, while there is one. I/O goes through Asio, one read and one write at a time; or, where possible
/// and when neither is under way, by the socket's own calls.
class carrier {
public:
    using code = boost::system::error_code;

    void begin(std::shared_ptr<transport> t) noexcept {
        transport_  = std::move(t);
        is_sending_ = false;
    }
    /// Ends the greeting. From now on the socket's own calls are used where possible.
    void settle() noexcept { socket_ = transport_->descriptor(); }

    /// Closes the connection. Operations under way end with an error; end() may be called once is_busy() is false.
    void close() noexcept {
        socket_ = -1;
        transport_->close();
    }
    void end() noexcept { transport_.reset(); }

    bool is_reading() const noexcept { return read_.busy; }
    bool is_writing() const noexcept { return write_.busy; }
    bool is_busy() const noexcept { return read_.busy || write_.busy; }
    bool is_direct() const noexcept { return socket_ >= 0 && !is_busy(); }

    template <class F>
    void write(std::span<boost::asio::const_buffer const> from, F done) {
        transport_->async_write_some(from, write_.handler(done));
    }
    template <class F>
    void read(std::span<boost::asio::mutable_buffer const> into, F done) {
        transport_->async_read_some(into, read_.handler(done));
    }

    // write_now() and read_now() need is_direct(). They return false if the socket is not ready; else they have
    // called done(why, n).

    template <class F>
    bool write_now(std::span<boost::asio::const_buffer const> from, F done) {
        moved const m = send_now(socket_, from);
        is_sending_   = m.not_now();
        if (!is_sending_) done(code(m.why), amount(m));
        return !is_sending_;
    }
    template <class F>
    bool read_now(std::span<boost::asio::mutable_buffer const> into, F done) {
        moved const m = receive_now(socket_, into);
        if (m.not_now()) return false;
        done(m.bytes == 0 ? code(boost::asio::error::eof) : code(m.why), amount(m));
        return true;
    }
    int  socket() const noexcept { return socket_; }
    bool is_sending() const noexcept { return is_sending_; }  ///< waits until the socket can be written

private:
    /// An operation of Asio's.
    struct operation {
        io_memory memory;
        bool      busy = false;

        template <class F>
        auto handler(F done) {
            busy = true;
            return with_memory(memory, [this, done](code why, std::size_t n) {
                busy = false;
                done(why, n);
            });
        }
    };

    static std::size_t amount(moved const& m) noexcept {
        return static_cast<std::size_t>(std::max(m.bytes, std::ptrdiff_t{0}));
    }

    std::shared_ptr<transport> transport_;
    int                        socket_     = -1;
    bool                       is_sending_ = false;
    operation                  read_, write_;
};

}  // namespace tenure::detail::remote

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <boost/asio/async_result.hpp>
#include <boost/asio/compose.hpp>

#include <tenure/remote/client/async_call.hpp>
#include <tenure/remote/client/options.hpp>
#include <tenure/remote/endpoint.hpp>
#include <tenure/result.hpp>
#include <tenure/store/concept.hpp>

namespace tenure {

/// A store whose blocks are buffers at a buffer_server. Thread-safe; handlers may call it too.
///
/// Each operation ends within client_options::timeout, if need be with errc::timed_out. If the connection drops,
/// the store connects again and repeats unanswered requests; the server does each once. If the server is out of
/// reach for longer than its lease, or was restarted, all blocks are gone. Then naming one is errc::stale_handle,
/// and freeing one is no error. Other operations that were under way report errc::disconnected, or
/// errc::stale_handle if they name blocks and the server was reached again. Later operations start a new session,
/// or report errc::device_unavailable if no server can be reached.
///
/// The async_ operations take any completion token. Memory passed to them must stay valid until the handler is
/// called. A handler runs on its own executor, else on the store's thread, where it may also call blocking
/// operations. A cancelled operation reports std::errc::operation_canceled, and was done or was not.
///
/// The store uses no memory per block. It fetches small blocks several at a time; the server counts those that
/// nobody has asked for yet, usage() does not. In a child of fork() operations report errc::forked: the store is
/// the parent's.
class remote_store {
    struct core;

public:
    static constexpr store_traits traits{.copyable = true, .asynchronous = true, .batched = true};

    using executor_type = detail::remote::store_executor;

    /// Connects to a server, and returns once it has let the client in. Throws tenure::error, which names the
    /// server and says what the system or the server reported: device_unavailable (not reached), access_denied,
    /// newer_format, limit_exceeded, store_closed (the server is stopping), timed_out; std::errc::invalid_argument
    /// for TLS without client_options::tls.
    static std::shared_ptr<remote_store> connect(endpoint const& to, client_options options = {});

    /// Closes the store as close() does. May run in a handler.
    ~remote_store();
    remote_store(remote_store const&)            = delete;
    remote_store& operator=(remote_store const&) = delete;

    /// Makes a block of zeros. One round trip; for many small blocks of one batch, size and alignment, one for
    /// hundreds. Errors: limit_exceeded (see last_limit()), store_full, memory_full, bad_alignment.
    result<block> allocate(std::size_t bytes, std::size_t alignment);

    /// Makes a block in a batch: a number of the caller's choice, or 0 for none. Cost and errors as allocate().
    result<block> allocate_in(std::uint64_t batch, std::size_t bytes, std::size_t alignment);

    /// Frees the blocks. One request for a million blocks that were made one after the other, else one for forty
    /// thousand runs of such blocks. Errors: no_such_block if one was not live; the others are freed.
    result<void> deallocate(std::span<block const> many) noexcept;

    /// Frees the batch, which has the blocks in `many`. One request, however many.
    result<void> deallocate_batch(std::uint64_t batch, std::span<block const> many) noexcept;

    /// Moves the blocks into a batch, or out of any if it is 0: all, or none on error. Errors: no_such_block,
    /// limit_exceeded for more runs than fit into one request.
    result<void> transfer(std::span<block const> many, std::uint64_t batch);

    /// Reads bytes from `offset` on, as many as `out` has; more than client_options::piece in several requests,
    /// side by side. Errors: no_such_block, out_of_range.
    result<void> read(block b, std::size_t offset, std::span<std::byte> out);
    /// Writes `in` from `offset` on; more than client_options::piece bytes in several requests, side by side.
    /// Errors: no_such_block, out_of_range.
    result<void> write(block b, std::size_t offset, std::span<std::byte const> in);

    /// Copies at the server. Errors: no_such_block; out_of_range, also for overlapping ranges of one block.
    result<void> copy(block from, std::size_t from_offset, block to, std::size_t to_offset, std::size_t bytes);

    /// Shares the block under a name: until it is freed, other clients of the server can open() it to read, write
    /// and copy. Errors: std::errc::invalid_argument for a name that is empty or has more than 255 bytes,
    /// access_denied if another block has the name, limit_exceeded if this block has 64.
    result<void> share(block b, std::string_view name);
    /// Takes the name away. Errors: no_such_name; access_denied if it is another client's block.
    result<void> unshare(std::string_view name);
    /// Returns the block that is shared under that name. It stays its maker's, and does not count in usage().
    /// Errors: no_such_name.
    result<block> open(std::string_view name);

    /// Copies from this store's server to the other's, without passing through this process. Errors: access_denied
    /// if the other is not among the peers of this store's server.
    result<void> send_to(block from, std::size_t offset, std::size_t bytes, remote_store& other, block to,
                         std::size_t to_offset);

    /// Returns the server's clients, bytes and batches as JSON. Errors: access_denied unless the client is the
    /// server's own user, on a Unix socket.
    result<std::string> server_status();

    /// Returns how many bytes and blocks this store gave and nobody freed. `capacity` is what the server allows, 0
    /// if it does not say. Does not wait.
    store_usage usage() const noexcept;

    /// Returns the server's endpoint, as text.
    std::string describe() const;

    /// Returns which of the server's limits was met last, in its words ("buffers: one tenant may have 4194304"):
    /// for use after errc::limit_exceeded. Empty if none was met, or the server does not say. Does not wait.
    std::string last_limit() const;

    /// Ends the session: the server frees all that it held for this store. Afterwards operations report
    /// store_closed, and so do those that wait for a connection. Waits for a second at most. Errors: disconnected
    /// if the connection is down or goes, timed_out: whether the server heard is not known; if not, it frees all
    /// within a lease. Closing again, or without a session at the server, is no error.
    result<void> close() noexcept;

    /// Returns the executor that runs functions on the store's thread, in order.
    executor_type get_executor() noexcept;

    // The async_ operations are the operations without the prefix, but do not wait. Their handlers take a
    // boost::system::error_code (or a std::error_code), and then a block from those that give one, a std::string
    // from the status.

    template <class Token>
    auto async_allocate(std::size_t bytes, std::size_t alignment, Token&& token) {
        return async_allocate_in(0, bytes, alignment, std::forward<Token>(token));
    }
    template <class Token>
    auto async_allocate_in(std::uint64_t batch, std::size_t bytes, std::size_t alignment, Token&& token) {
        return initiate<&call::made>([=](call& c) { ask_blocks(c, batch, bytes, alignment); }, token);
    }
    /// Frees as deallocate() does. The memory of `many` must stay valid until the handler is called.
    template <class Token>
    auto async_deallocate(std::span<block const> many, Token&& token) {
        return initiate<>([=](call& c) { ask_many(c, operation::deallocate, many); }, token);
    }
    template <class Token>
    auto async_deallocate_batch(std::uint64_t batch, std::span<block const> many, Token&& token) {
        return initiate<>([=](call& c) { ask_many(c, operation::end_batch, many, batch); }, token);
    }
    template <class Token>
    auto async_transfer(std::span<block const> many, std::uint64_t batch, Token&& token) {
        return initiate<>([=](call& c) { ask_many(c, operation::transfer, many, batch); }, token);
    }
    template <class Token>
    auto async_read(block b, std::size_t offset, std::span<std::byte> out, Token&& token) {
        return initiate<>([=](call& c) { ask_read(c, b, offset, out); }, token);
    }
    template <class Token>
    auto async_write(block b, std::size_t offset, std::span<std::byte const> in, Token&& token) {
        return initiate<>([=](call& c) { ask_write(c, b, offset, in); }, token);
    }
    template <class Token>
    auto async_copy(block from, std::size_t from_offset, block to, std::size_t to_offset, std::size_t bytes,
                    Token&& token) {
        return initiate<>([=](call& c) { ask_copy(c, from, from_offset, to, to_offset, bytes); }, token);
    }
    template <class Token>
    auto async_share(block b, std::string const& name, Token&& token) {
        return initiate<>([=](call& c) { ask_name(c, operation::share, name, b); }, token);
    }
    template <class Token>
    auto async_unshare(std::string const& name, Token&& token) {
        return initiate<>([=](call& c) { ask_name(c, operation::unshare, name); }, token);
    }
    template <class Token>
    auto async_open(std::string const& name, Token&& token) {
        return initiate<&call::made>([=](call& c) { ask_name(c, operation::open, name); }, token);
    }
    /// Sends as send_to() does. Both stores must stay until the handler is called.
    template <class Token>
    auto async_send_to(block from, std::size_t offset, std::size_t bytes, remote_store& other, block to,
                       std::size_t to_offset, Token&& token) {
        auto const grant = [=, there = &other](auto& self) {
            there->template initiate<&call::ticket>(
                [=](call& c) { ask_range(c, operation::grant, to, to_offset, nullptr, bytes); }, self);
        };
        auto const send = [=, here = this, where = other.describe()](auto& self, protocol::key const& ticket) {
            here->template initiate<>(
                [=](call& c) { ask_send(c, from, offset, bytes, where, to, to_offset, ticket); }, self);
        };
        return boost::asio::async_compose<Token, void(boost::system::error_code)>(
            detail::remote::sending{grant, send}, token, get_executor());
    }
    template <class Token>
    auto async_server_status(Token&& token) {
        return initiate<&call::text>([](call& c) { c.what = operation::status; }, token);
    }

private:
    using call      = detail::remote::call;
    using operation = protocol::operation;

    remote_store(endpoint const& to, client_options&& options);

    static detail::remote::call_driver& driver_of(core& c) noexcept;
    /// Begins a call for which no thread blocks. Returns false if it is finished already, and not in any list.
    static bool begin(core& c, call& what) noexcept;

    /// Starts an operation that calls the token's handler. `Given`: what it gets besides the error.
    template <auto... Given, class Set, class Token>
    auto initiate(Set set, Token& token) {
        return boost::asio::async_initiate<Token, detail::remote::signature<Given...>>(
            [core = core_.get()](auto handler, Set const& fill) {
                using asked    = detail::remote::async_call<decltype(handler), Given...>;
                asked* const c = asked::make(driver_of(*core), std::move(handler), fill);
                if (!begin(*core, *c)) c->deliver();
            },
            token, std::move(set));
    }

    std::shared_ptr<core> core_;
    std::thread           thread_;
};

static_assert(backing_store<remote_store>);

}  // namespace tenure

#ifndef TENURE_SEPARATE_REMOTE
#include <tenure/remote/impl/client.ipp>
#endif

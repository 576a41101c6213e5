// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <boost/asio/async_result.hpp>
#include <boost/asio/compose.hpp>
#include <boost/system/error_code.hpp>

#include <tenure/remote/client/asking.hpp>
#include <tenure/remote/client/async_call.hpp>
#include <tenure/remote/client/driver.hpp>
#include <tenure/remote/client/options.hpp>
#include <tenure/remote/client/sending.hpp>
#include <tenure/remote/client/stash.hpp>
#include <tenure/remote/endpoint.hpp>
#include <tenure/store/concept.hpp>

namespace tenure {

/// Buffers at a buffer_server, as a store. All of it may be called from any thread, and from handlers.
///
/// Each operation ends within client_options::timeout, with errc::timed_out if nothing else. A connection that
/// drops is made anew, and what was asked for is asked again and done once; if the server cannot be reached for
/// longer than its lease, or is another one now, all blocks are gone: naming one is errc::stale_handle, freeing one
/// is no error, and what else was under way is errc::disconnected, as is all that was while no server answered. New
/// blocks are made in a new session then.
///
/// The async_ operations take any completion token; what is passed to them stays until the handler is called. A
/// handler runs on its own executor, else on the store's thread, where it may also call operations that block. A
/// cancelled one is std::errc::operation_canceled, and was done or was not.
///
/// No memory is used per block. Small blocks come some at a time: the server counts those that nobody has asked for
/// yet, usage() does not. A child of a fork() is told that the store is its parent's: errc::forked.
class remote_store {
    struct core;
    struct key;

public:
    static constexpr store_traits traits{.copyable = true, .asynchronous = true, .batched = true};

    using executor_type = detail::remote::store_executor;

    /// A store at that server, once it has let the client in. Throws tenure::error, which names the server: what
    /// the system said of the connection, access_denied, newer_format, timed_out; std::errc::invalid_argument for
    /// TLS without client_options::tls.
    static std::shared_ptr<remote_store> connect(endpoint const& to, client_options options = {}) {
        return std::make_shared<remote_store>(key(), to, std::move(options));
    }

    ~remote_store() {
        if (core_->driver
                .is_parents()) {  // whose thread cannot be joined, and whose connection is not to be closed
            static_cast<void>(new (std::nothrow) std::shared_ptr<core>(core_));
            new (&thread_) std::thread;
            return;
        }
        static_cast<void>(close());
        core_->driver.stop();
        if (std::this_thread::get_id() == thread_.get_id()) thread_.detach();  // a handler had the last pointer
        else thread_.join();
    }
    remote_store(remote_store const&)            = delete;
    remote_store& operator=(remote_store const&) = delete;

    /// One round trip; for many small blocks of a kind, one for hundreds.
    result<block> allocate(std::size_t bytes, std::size_t alignment) { return allocate_in(0, bytes, alignment); }

    result<block> allocate_in(std::uint64_t batch, std::size_t bytes, std::size_t alignment) {
        if (core_->driver.is_parents()) return make_error_code(errc::forked);
        waiting c;
        detail::remote::ask_blocks(c, batch, bytes, alignment);
        if (auto const b = core_->take(c)) return *b;
        if (auto const why = run(c)) return why;
        return c.made;
    }

    /// One request for a million blocks that were made one after the other, else one for forty thousand runs of
    /// such.
    result<void> deallocate(std::span<block const> many) noexcept {
        return done([&](call& c) { detail::remote::ask_many(c, operation::deallocate, many); });
    }

    /// One request, however many.
    result<void> deallocate_batch(std::uint64_t batch, std::span<block const> many) noexcept {
        return done([&](call& c) { detail::remote::ask_many(c, operation::end_batch, many, batch); });
    }

    /// limit_exceeded if they are more runs than go into one request.
    result<void> transfer(std::span<block const> many, std::uint64_t batch) {
        return done([&](call& c) { detail::remote::ask_many(c, operation::transfer, many, batch); });
    }

    /// Long ones are several requests, side by side.
    result<void> read(block b, std::size_t offset, std::span<std::byte> out) {
        return done([&](call& c) { detail::remote::ask_read(c, b, offset, out); });
    }
    result<void> write(block b, std::size_t offset, std::span<std::byte const> in) {
        return done([&](call& c) { detail::remote::ask_write(c, b, offset, in); });
    }

    /// At the server.
    result<void> copy(block from, std::size_t from_offset, block to, std::size_t to_offset, std::size_t bytes) {
        return done([&](call& c) { detail::remote::ask_copy(c, from, from_offset, to, to_offset, bytes); });
    }

    /// Others of the server find the block under that name, until it is freed: to read, write and copy.
    result<void> share(block b, std::string_view name) {
        return done([&](call& c) { detail::remote::ask_name(c, operation::share, name, b); });
    }
    result<void> unshare(std::string_view name) {
        return done([&](call& c) { detail::remote::ask_name(c, operation::unshare, name); });
    }
    /// A block that is shared under that name. It stays its maker's, and does not count in usage().
    result<block> open(std::string_view name) {
        waiting c;
        detail::remote::ask_name(c, operation::open, name);
        if (auto const why = run(c)) return why;
        return c.made;
    }

    /// From this store's server to the other's, not through here. This one must have the other among its peers.
    result<void> send_to(block from, std::size_t offset, std::size_t bytes, remote_store& other, block to,
                         std::size_t to_offset) {
        waiting grant;
        detail::remote::ask_range(grant, operation::grant, to, to_offset, nullptr, bytes);
        if (auto const why = other.run(grant)) return why;
        return done([&](call& c) {
            detail::remote::ask_send(c, from, offset, bytes, other.describe(), to, to_offset, grant.ticket);
        });
    }

    /// Its clients, bytes and batches, as JSON; access_denied for who is not its owner.
    result<std::string> server_status() {
        waiting c;
        c.what = operation::status;
        if (auto const why = run(c)) return why;
        return std::move(c.text);
    }

    /// What this store gave and nobody freed; the capacity is what the server allows, 0 if it does not say. Waits
    /// for nothing.
    store_usage usage() const noexcept {
        auto const& held = core_->driver.state().held();
        auto const  less = [](std::int64_t a, std::int64_t b) {
            return static_cast<std::size_t>(std::max(a - b, std::int64_t{0}));
        };
        return {less(held.bytes(), core_->spare.bytes()), less(held.blocks(), core_->spare.blocks()),
                static_cast<std::size_t>(core_->driver.state().capacity())};
    }

    std::string describe() const { return core_->to.to_text(); }

    /// After errc::limit_exceeded: which of the server's limits was met last, in its words ("buffers: one tenant
    /// may have 4194304"). Empty: none, or the server does not say. Waits for nothing.
    std::string last_limit() const { return core_->driver.state().limit().text(); }

    /// Tells the server, which frees all of it. Afterwards everything is store_closed. Waits for a second at most.
    /// disconnected, timed_out: whether it heard is not known; then it frees all within a lease.
    result<void> close() noexcept {
        waiting c;
        c.what     = operation::goodbye;
        c.deadline = now() + std::min<clock::duration>(core_->options.timeout, std::chrono::seconds(1));
        core_->driver.run(c);
        return outcome(c.error);
    }

    executor_type get_executor() noexcept { return executor_type(core_->driver); }

    // Without waiting. The handler's arguments are boost::system::error_code, or a std::error_code, and then a
    // block from those that give one, a std::string from the status.

    template <class Token>
    auto async_allocate(std::size_t bytes, std::size_t alignment, Token&& token) {
        return async_allocate_in(0, bytes, alignment, std::forward<Token>(token));
    }
    template <class Token>
    auto async_allocate_in(std::uint64_t batch, std::size_t bytes, std::size_t alignment, Token&& token) {
        return initiate<block>([=](call& c) { detail::remote::ask_blocks(c, batch, bytes, alignment); }, token);
    }
    /// What `many` refers to stays until the handler is called, as any memory.
    template <class Token>
    auto async_deallocate(std::span<block const> many, Token&& token) {
        return initiate<void>([=](call& c) { detail::remote::ask_many(c, operation::deallocate, many); }, token);
    }
    template <class Token>
    auto async_deallocate_batch(std::uint64_t batch, std::span<block const> many, Token&& token) {
        return initiate<void>([=](call& c) { detail::remote::ask_many(c, operation::end_batch, many, batch); },
                              token);
    }
    template <class Token>
    auto async_transfer(std::span<block const> many, std::uint64_t batch, Token&& token) {
        return initiate<void>([=](call& c) { detail::remote::ask_many(c, operation::transfer, many, batch); },
                              token);
    }
    template <class Token>
    auto async_read(block b, std::size_t offset, std::span<std::byte> out, Token&& token) {
        return initiate<void>([=](call& c) { detail::remote::ask_read(c, b, offset, out); }, token);
    }
    template <class Token>
    auto async_write(block b, std::size_t offset, std::span<std::byte const> in, Token&& token) {
        return initiate<void>([=](call& c) { detail::remote::ask_write(c, b, offset, in); }, token);
    }
    template <class Token>
    auto async_copy(block from, std::size_t from_offset, block to, std::size_t to_offset, std::size_t bytes,
                    Token&& token) {
        return initiate<void>(
            [=](call& c) { detail::remote::ask_copy(c, from, from_offset, to, to_offset, bytes); }, token);
    }
    template <class Token>
    auto async_share(block b, std::string const& name, Token&& token) {
        return initiate<void>([=](call& c) { detail::remote::ask_name(c, operation::share, name, b); }, token);
    }
    template <class Token>
    auto async_unshare(std::string const& name, Token&& token) {
        return initiate<void>([=](call& c) { detail::remote::ask_name(c, operation::unshare, name); }, token);
    }
    template <class Token>
    auto async_open(std::string const& name, Token&& token) {
        return initiate<block>([=](call& c) { detail::remote::ask_name(c, operation::open, name); }, token);
    }
    /// Both stores stay until the handler is called.
    template <class Token>
    auto async_send_to(block from, std::size_t offset, std::size_t bytes, remote_store& other, block to,
                       std::size_t to_offset, Token&& token) {
        auto const grant = [=, there = &other](auto& self) {
            there->template initiate<protocol::key>(
                [=](call& c) { detail::remote::ask_range(c, operation::grant, to, to_offset, nullptr, bytes); },
                self);
        };
        auto const send = [=, here = this, where = other.describe()](auto& self, protocol::key const& ticket) {
            here->template initiate<void>(
                [=](call& c) { detail::remote::ask_send(c, from, offset, bytes, where, to, to_offset, ticket); },
                self);
        };
        return boost::asio::async_compose<Token, void(boost::system::error_code)>(
            detail::remote::sending{grant, send}, token, get_executor());
    }
    template <class Token>
    auto async_server_status(Token&& token) {
        return initiate<std::string>([](call& c) { c.what = operation::status; }, token);
    }

private:
    using call      = detail::remote::call;
    using clock     = detail::remote::clock;
    using waiting   = detail::remote::driver::blocking_call;
    using operation = protocol::operation;

    /// What the store's thread may outlive the store with.
    struct core {
        core(endpoint const& e, client_options&& o)
            : to(e), options(std::move(o)), spare(options.ahead, options.in_flight), driver(to, options, spare) {}

        /// A block that is there; else the call asks for it.
        std::optional<block> take(call& c) noexcept {
            detail::remote::stash::wanted ask;
            auto const                    b = spare.take({c.batch, c.length, c.alignment}, ask);
            c.count                         = ask.count;
            c.room                          = ask.bytes;
            return b;
        }

        endpoint const         to;
        client_options const   options;
        detail::remote::stash  spare;
        detail::remote::driver driver;
    };
    struct key {
        explicit key() = default;
    };

public:
    remote_store(key, endpoint const& to, client_options&& options)
        : core_(std::make_shared<core>(to, std::move(options))) {
        if (to.how == endpoint::kind::tls && !core_->options.tls)
            throw error(make_error_code(std::errc::invalid_argument),
                        describe() + ": TLS needs client_options::tls, a tls_client of remote/tls.hpp");
        waiting c;
        c.what     = operation::hello;
        c.deadline = now() + core_->options.connect_timeout;
        core_->driver.run(c);
        if (c.error) {
            auto const why  = core_->driver.state().last_trouble();
            auto const more = why && why != c.error ? why.message() : last_limit();
            throw error(c.error, "no connection to " + describe() + (more.empty() ? "" : " (" + more + ")"));
        }
        thread_ = std::thread([core = core_] { core->driver.serve(); });
    }

private:
    static clock::time_point now() noexcept { return clock::now(); }
    static result<void>      outcome(std::error_code why) noexcept {
        if (why) return why;
        return {};
    }

    std::error_code run(waiting& c) noexcept {
        c.deadline = now() + core_->options.timeout;
        core_->driver.run(c);
        return c.error;
    }
    template <class Set>
    result<void> done(Set set) {
        waiting c;
        set(c);
        return outcome(run(c));
    }

    /// `Given`: what the handler gets besides the error.
    template <class Given, class Set, class Token>
    auto initiate(Set set, Token& token) {
        using made = detail::remote::given<Given>;
        return boost::asio::async_initiate<Token, typename made::signature>(
            [core = core_.get()](auto handler, Set const& fill) {
                using asked    = detail::remote::async_call<decltype(handler), Given>;
                asked* const c = asked::make(core->driver, std::move(handler), fill);
                c->deadline    = now() + core->options.timeout;
                if (c->what == operation::allocate) {
                    if (auto const b = core->take(*c)) {
                        c->made = *b;
                        c->past = true;
                        return c->deliver();
                    }
                }
                core->driver.submit(*c);
            },
            token, std::move(set));
    }

    std::shared_ptr<core> core_;
    std::thread           thread_;
};

static_assert(backing_store<remote_store>);

}  // namespace tenure

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <tenure/remote/client.hpp>
#include <tenure/remote/client/driver.hpp>
#include <tenure/remote/client/stash.hpp>
#include <tenure/remote/impl/config.hpp>

namespace tenure {

/// Everything that the store's thread uses: the thread may outlive the store.
struct remote_store::core {
    using clock   = detail::remote::clock;
    using waiting = detail::remote::driver::blocking_call;

    core(endpoint const& e, client_options&& o)
        : to(e), options(std::move(o)), spare(options.ahead, options.in_flight), driver(to, options, spare) {}

    /// Returns a block that was fetched ahead; else sets what the call asks the server for.
    std::optional<block> take(call& c) noexcept {
        detail::remote::stash::wanted ask;
        auto const                    b = spare.take({c.batch, c.length, c.alignment}, ask);
        c.count                         = ask.count;
        c.room                          = ask.bytes;
        return b;
    }

    std::error_code run(waiting& c) noexcept {
        c.deadline = clock::now() + options.timeout;
        driver.run(c);
        return c.error;
    }
    /// Fills in a call by set(call&), and runs it.
    template <class Set>
    result<void> done(Set set) {
        waiting c;
        set(c);
        if (auto const why = run(c)) return why;
        return {};
    }

    endpoint const         to;
    client_options const   options;
    detail::remote::stash  spare;
    detail::remote::driver driver;
};

TENURE_REMOTE_DECL remote_store::remote_store(endpoint const& to, client_options&& options)
    : core_(std::make_shared<core>(to, std::move(options))) {
    if (to.how == endpoint::kind::tls && !core_->options.tls)
        throw error(make_error_code(std::errc::invalid_argument),
                    describe() + ": TLS needs client_options::tls, a tls_client of remote/tls.hpp");
    core::waiting c;
    c.what     = operation::hello;
    c.deadline = core::clock::now() + core_->options.connect_timeout;
    core_->driver.run(c);
    if (c.error) {
        auto const why  = core_->driver.state().last_trouble();
        auto const more = why && why != c.error ? why.message() : last_limit();
        throw error(c.error, "no connection to " + describe() + (more.empty() ? "" : " (" + more + ")"));
    }
    thread_ = std::thread([core = core_] { core->driver.serve(); });
}

TENURE_REMOTE_DECL std::shared_ptr<remote_store> remote_store::connect(endpoint const& to, client_options options) {
    return std::shared_ptr<remote_store>(new remote_store(to, std::move(options)));
}

TENURE_REMOTE_DECL remote_store::~remote_store() {
    if (core_->driver.is_parents()) {  // neither the thread nor the connection is ours: both stay as they are
        static_cast<void>(new (std::nothrow) std::shared_ptr<core>(core_));
        new (&thread_) std::thread;
        return;
    }
    static_cast<void>(close());
    core_->driver.stop();
    if (std::this_thread::get_id() == thread_.get_id()) thread_.detach();  // a handler had the last pointer
    else thread_.join();
}

TENURE_REMOTE_DECL result<block> remote_store::allocate(std::size_t bytes, std::size_t alignment) {
    return allocate_in(0, bytes, alignment);
}

TENURE_REMOTE_DECL result<block> remote_store::allocate_in(std::uint64_t batch, std::size_t bytes,
                                                           std::size_t alignment) {
    if (core_->driver.is_parents()) return make_error_code(errc::forked);
    core::waiting c;
    ask_blocks(c, batch, bytes, alignment);
    if (auto const b = core_->take(c)) return *b;
    if (auto const why = core_->run(c)) return why;
    return c.made;
}

TENURE_REMOTE_DECL result<void> remote_store::deallocate(std::span<block const> many) noexcept {
    return core_->done([&](call& c) { ask_many(c, operation::deallocate, many); });
}
TENURE_REMOTE_DECL result<void> remote_store::deallocate_batch(std::uint64_t          batch,
                                                               std::span<block const> many) noexcept {
    return core_->done([&](call& c) { ask_many(c, operation::end_batch, many, batch); });
}
TENURE_REMOTE_DECL result<void> remote_store::transfer(std::span<block const> many, std::uint64_t batch) {
    return core_->done([&](call& c) { ask_many(c, operation::transfer, many, batch); });
}

TENURE_REMOTE_DECL result<void> remote_store::read(block b, std::size_t offset, std::span<std::byte> out) {
    return core_->done([&](call& c) { ask_read(c, b, offset, out); });
}
TENURE_REMOTE_DECL result<void> remote_store::write(block b, std::size_t offset, std::span<std::byte const> in) {
    return core_->done([&](call& c) { ask_write(c, b, offset, in); });
}
TENURE_REMOTE_DECL result<void> remote_store::copy(block from, std::size_t from_offset, block to,
                                                   std::size_t to_offset, std::size_t bytes) {
    return core_->done([&](call& c) { ask_copy(c, from, from_offset, to, to_offset, bytes); });
}

TENURE_REMOTE_DECL result<void> remote_store::share(block b, std::string_view name) {
    return core_->done([&](call& c) { ask_name(c, operation::share, name, b); });
}
TENURE_REMOTE_DECL result<void> remote_store::unshare(std::string_view name) {
    return core_->done([&](call& c) { ask_name(c, operation::unshare, name); });
}
TENURE_REMOTE_DECL result<block> remote_store::open(std::string_view name) {
    core::waiting c;
    ask_name(c, operation::open, name);
    if (auto const why = core_->run(c)) return why;
    return c.made;
}

TENURE_REMOTE_DECL result<void> remote_store::send_to(block from, std::size_t offset, std::size_t bytes,
                                                      remote_store& other, block to, std::size_t to_offset) {
    core::waiting grant;
    ask_range(grant, operation::grant, to, to_offset, nullptr, bytes);
    if (auto const why = other.core_->run(grant)) return why;
    return core_->done(
        [&](call& c) { ask_send(c, from, offset, bytes, other.describe(), to, to_offset, grant.ticket); });
}

TENURE_REMOTE_DECL result<std::string> remote_store::server_status() {
    core::waiting c;
    c.what = operation::status;
    if (auto const why = core_->run(c)) return why;
    return std::move(c.text);
}

TENURE_REMOTE_DECL store_usage remote_store::usage() const noexcept {
    auto const& held = core_->driver.state().held();
    auto const  less = [](std::int64_t a, std::int64_t b) {
        return static_cast<std::size_t>(std::max(a - b, std::int64_t{0}));
    };
    return {less(held.bytes(), core_->spare.bytes()), less(held.blocks(), core_->spare.blocks()),
            static_cast<std::size_t>(core_->driver.state().capacity())};
}

TENURE_REMOTE_DECL std::string remote_store::describe() const { return core_->to.to_text(); }
TENURE_REMOTE_DECL std::string remote_store::last_limit() const { return core_->driver.state().limit().text(); }

TENURE_REMOTE_DECL result<void> remote_store::close() noexcept {
    core::waiting c;
    c.what = operation::goodbye;
    c.deadline =
        core::clock::now() + std::min<core::clock::duration>(core_->options.timeout, std::chrono::seconds(1));
    core_->driver.run(c);
    if (c.error) return c.error;
    return {};
}

TENURE_REMOTE_DECL remote_store::executor_type remote_store::get_executor() noexcept {
    return executor_type(core_->driver);
}

TENURE_REMOTE_DECL detail::remote::call_driver& remote_store::driver_of(core& c) noexcept { return c.driver; }

TENURE_REMOTE_DECL bool remote_store::begin(core& c, call& what) noexcept {
    what.deadline = core::clock::now() + c.options.timeout;
    if (what.what == operation::allocate && !c.driver.is_parents()) {  // whose blocks are its own
        if (auto const b = c.take(what)) {
            what.made = *b;
            what.past = true;
            return false;
        }
    }
    c.driver.submit(what);
    return true;
}

}  // namespace tenure

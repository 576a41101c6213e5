// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A server and four connections to it, of clients that mean no good: frames in order and out of it, halves of
// frames, lost connections, each other's sessions, blocks and tickets. Whatever they say, what they hear are
// frames, one client's bytes are never shown to another, and when they are gone the store is empty.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <boost/asio/io_context.hpp>

#include <tenure/remote/server.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/store/limited.hpp>

#include "input.hpp"
#include "memory_transport.hpp"
#include "speaker.hpp"

namespace {

constexpr std::size_t room = 1 << 20, bookkeeping = 256 << 10;

/// Of what is counted once it is there, before a limit is looked at: the least that each session needs.
constexpr std::size_t beyond = 32 << 10;

tenure::server_options options(bool with_tokens) {
    tenure::server_options o;
    o.lease         = std::chrono::hours(1);  // time does not pass here
    o.hello_timeout = std::chrono::hours(1);
    o.quota         = {.bytes        = room / 2,
                       .buffers      = 3000,
                       .batches      = 3,
                       .in_flight    = 8,
                       .tickets      = 4,
                       .sessions     = 4,
                       .requests     = 30,
                       .names        = 3,
                       .queued_bytes = 300'000,
                       .memory       = bookkeeping};
    o.limits = {.bytes = room, .memory = 2 * bookkeeping, .sessions = 6, .connections = 0, .queued_bytes = 1 << 20};
    o.wrong_tokens = {.a_second = 0, .all_a_second = 0};
    if (with_tokens) {
        o.tokens.add("ann", "hers");
        o.tokens.add("bob", "his");
    }
    return o;
}

/// A connection, and a new one in its place once it is over.
class seat {
public:
    seat(std::shared_ptr<tenure::detail::hub> hub, boost::asio::io_context& context, fuzz::knowledge& all,
         std::string user)
        : hub_(std::move(hub)), context_(context), all_(all), user_(std::move(user)) {
        sit();
    }

    void act(fuzz::input& in) {
        if (speaker_->its().closed || speaker_->its().ended) sit();
        speaker_->act(in);
    }
    void listen() { speaker_->listen(); }
    void leave() { fuzz::end(speaker_->its()); }

private:
    void sit() {
        auto const w = std::make_shared<fuzz::wire>();
        auto       t = std::make_shared<fuzz::memory_transport>(context_, w);
        std::make_shared<tenure::detail::connection>(hub_, std::move(t),
                                                     tenure::detail::peer{"fuzz", true, true, false, user_, user_},
                                                     hub_->enter({"fuzz", true, true, false, user_, user_}))
            ->start();
        if (speaker_) speaker_->sit_down(w);
        else speaker_.emplace(w, all_);
    }

    std::shared_ptr<tenure::detail::hub> hub_;
    boost::asio::io_context&             context_;
    fuzz::knowledge&                     all_;
    std::string const                    user_;
    std::optional<fuzz::speaker>         speaker_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    fuzz::input in(std::as_bytes(std::span(data, size)));
    auto const  heap = std::make_shared<tenure::heap_store>();
    {
        auto const store =
            std::make_shared<tenure::limited_store<tenure::heap_store>>(heap, tenure::store_limits{.bytes = room});
        boost::asio::io_context context{1};
        auto const hub = std::make_shared<tenure::detail::hub>(context.get_executor(), tenure::any_store(store),
                                                               options(size % 4 == 3));
        fuzz::knowledge all;
        auto            seats = [&]<std::size_t... i>(std::index_sequence<i...>) {
            return std::array{seat(hub, context, all, "user " + std::to_string(i / 2))...};
        }(std::make_index_sequence<4>());

        // It stops whenever there is nothing left to wait for.
        auto const go_on = [&] {
            context.restart();
            context.poll();
        };
        std::size_t who = 0;
        for (int steps = 0; !in.empty() && steps != 2000; ++steps) {
            // A step in four is another client's.
            auto const next = in.take<std::uint8_t>();
            if (next >= 192) who = next % seats.size();
            seats[who].act(in);
            if (next & 32) continue;  // more comes before the server looks
            go_on();
            for (seat& s : seats) s.listen();
            using enum tenure::detail::resource;
            auto const& held = *hub->parts().all;
            fuzz::require(heap->usage().bytes <= room, "no more than there may be");
            fuzz::require(heap->usage().bytes == held.used(bytes),
                          "what the store holds is what tenants are charged");
            fuzz::require(held.used(tenure::detail::resource::memory) <= 2 * bookkeeping + beyond,
                          "bookkeeping is limited");
            for (auto const& t : hub->tenants()) {
                fuzz::require(t->own().used(bytes) <= room / 2 && t->own().used(buffers) <= 3000 &&
                                  t->own().used(batches) <= 3 && t->own().used(names) <= 3 &&
                                  t->own().used(sessions) <= 4 && t->own().used(requests) <= 30,
                              "no tenant has more than it may");
            }
        }
        for (seat& s : seats) s.leave();
        go_on();
        for (seat& s : seats) s.listen();
        hub->close();
        go_on();
        fuzz::require(hub->connections() == 0, "a connection that is over is forgotten");
        fuzz::require(hub->sessions().empty(), "and so is a session");
        fuzz::require(hub->parts().all->used() == tenure::detail::amounts{}, "all of it is given back");
        fuzz::require(store->usage().blocks == 0 && store->usage().bytes == 0, "what was limited is free");
    }
    fuzz::require(heap->usage() == tenure::store_usage{}, "nothing is left in the store");
    return 0;
}

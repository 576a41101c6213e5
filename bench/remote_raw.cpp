// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// The floor under remote buffers: the same bytes over the same sockets, headers included, with bare Asio and no
// bookkeeping at all. The other side is a process of its own, as in life.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <boost/asio.hpp>
#include <tenure/remote/protocol.hpp>

#include "child.hpp"
#include "remote.hpp"

namespace {

namespace asio     = boost::asio;
namespace protocol = tenure::protocol;

using bench::carrier;
using bench::measure;
using protocol::operation;
using stream = asio::generic::stream_protocol;

struct request {
    protocol::frame_header  header;
    protocol::range_request range;
};
using reply = protocol::frame_header;
static_assert(sizeof(request) == 64 && sizeof(reply) == 32);

request ask(operation what, std::size_t offset, std::size_t length) {
    request r;
    r.header.body      = sizeof r.range;
    r.header.payload   = what == operation::write ? static_cast<std::uint32_t>(length) : 0;
    r.header.operation = static_cast<std::uint16_t>(what);
    r.range.offset     = offset;
    r.range.length     = length;
    return r;
}

reply answer(std::size_t payload) {
    reply r;
    r.payload = static_cast<std::uint32_t>(payload);
    return r;
}

template <class T>
asio::mutable_buffer place(T& t) {
    return asio::buffer(&t, sizeof t);
}
template <class T>
asio::const_buffer bytes(T const& t) {
    return asio::buffer(&t, sizeof t);
}

/// What the server has: memory that is warm.
class memory {
public:
    std::byte* at(request const& r) const { return memory_.data() + r.range.offset; }

private:
    bench::warm_buffer memory_{bench::transfer_bytes};
};

/// One after the other, each for as long as it takes.
void serve(stream::socket& socket) {
    memory const here;
    for (request r; asio::read(socket, place(r));) {
        auto const block = asio::buffer(here.at(r), r.range.length);
        if (r.header.operation == static_cast<std::uint16_t>(operation::write)) {
            asio::read(socket, block);
            asio::write(socket, bytes(answer(0)));
        } else {
            auto const header = answer(block.size());
            asio::write(socket, std::array<asio::const_buffer, 2>{bytes(header), block});
        }
    }
}

/// Small reads, as many with one call as are there.
void serve_many(stream::socket& socket) {
    memory const                    here;
    std::array<request, 256>        in;
    reply const                     header = answer(bench::small_bytes);
    std::vector<asio::const_buffer> out;
    for (std::size_t have = 0;;) {
        auto const room = asio::buffer(in) + have;
        have += socket.read_some(room);
        std::size_t const whole = have / sizeof(request);
        for (std::size_t i = 0; i != whole; ++i) {
            out.push_back(bytes(header));
            out.push_back(asio::buffer(here.at(in[i]), in[i].range.length));
        }
        asio::write(socket, out);
        out.clear();
        std::memmove(in.data(), in.data() + whole, have -= whole * sizeof(request));
    }
}

/// A server in a process of its own, and a connection to it.
class connection {
public:
    connection(carrier how, void (*server)(stream::socket&)) : socket_{context_} {
        stream::endpoint const there =
            how == carrier::tcp
                ? stream::endpoint{asio::ip::tcp::endpoint{asio::ip::address_v4::loopback(), 0}}
                : stream::endpoint{asio::local::stream_protocol::endpoint{(directory_.path() / "socket").string()}};
        asio::basic_socket_acceptor<stream> listening{context_, there};
        other_.emplace([&] {
            auto socket = listening.accept();
            no_delay(socket, how);
            try {
                server(socket);
            } catch (boost::system::system_error const& e) {
                if (e.code() != asio::error::eof) throw;
            }
        });
        socket_.connect(listening.local_endpoint());
        no_delay(socket_, how);
    }

    stream::socket& socket() noexcept { return socket_; }

private:
    static void no_delay(stream::socket& socket, carrier how) {
        if (how == carrier::tcp) socket.set_option(asio::ip::tcp::no_delay{true});
    }

    bench::scratch_directory    directory_;
    asio::io_context            context_;
    stream::socket              socket_;
    std::optional<bench::child> other_;
};

void write(benchmark::State& state, carrier how) {
    connection               there{how, serve};
    bench::warm_buffer const memory{bench::transfer_bytes};
    measure(state, 1, [&] {
        auto const all     = asio::buffer(memory.data(), bench::transfer_bytes);
        auto const request = ask(operation::write, 0, all.size());
        reply      done;
        asio::write(there.socket(), std::array<asio::const_buffer, 2>{bytes(request), all});
        asio::read(there.socket(), place(done));
    });
}

void read(benchmark::State& state, carrier how) {
    connection               there{how, serve};
    bench::warm_buffer const memory{bench::transfer_bytes};
    measure(state, 1, [&] {
        auto const all = asio::buffer(memory.data(), bench::transfer_bytes);
        reply      header;
        asio::write(there.socket(), bytes(ask(operation::read, 0, all.size())));
        asio::read(there.socket(), std::array<asio::mutable_buffer, 2>{place(header), all});
    });
}

/// Where each of the small ones goes, and which is asked for next: any of them, so that no cache line is always
/// warm.
class small_ones {
public:
    request next() { return ask(operation::read, offset(asked_++), bench::small_bytes); }
    void    take(std::byte const* payload) {
        std::memcpy(out_[taken_++ % bench::in_flight].data(), payload, bench::small_bytes);
    }

private:
    static std::size_t offset(std::size_t i) { return i * 7919 % 1024 * bench::small_bytes; }

    std::size_t                                                             asked_ = 0, taken_ = 0;
    std::array<std::array<std::byte, bench::small_bytes>, bench::in_flight> out_;
};

/// As tight as one connection can be kept full: whatever has come is taken at once, and as many new requests go
/// together.
void reads(benchmark::State& state, carrier how) {
    connection             there{how, serve_many};
    constexpr std::size_t  one = sizeof(reply) + bench::small_bytes;
    std::vector<std::byte> in(bench::in_flight * one);
    std::vector<request>   out;
    small_ones             small;
    measure(state, bench::small_reads, [&] {
        std::size_t asked = 0, answered = 0, have = 0;
        auto const  fill = [&] {
            for (; asked - answered != bench::in_flight && asked != bench::small_reads; ++asked)
                out.push_back(small.next());
            if (!out.empty()) asio::write(there.socket(), asio::buffer(out));
            out.clear();
        };
        for (fill(); answered != bench::small_reads; fill()) {
            have += there.socket().read_some(asio::buffer(in) + have);
            std::size_t const whole = have / one;
            for (std::size_t i = 0; i != whole; ++i) small.take(in.data() + i * one + sizeof(reply));
            answered += whole;
            std::memmove(in.data(), in.data() + whole * one, have -= whole * one);
        }
    });
}

/// As such a program is mostly written: for each request a call to send it, and for each answer one for its header
/// and one for its payload; on both sides asynchronous.
class echo_server {
public:
    explicit echo_server(stream::socket& socket) : socket_{socket} { receive(); }

private:
    void receive() {
        asio::async_read(socket_, place(in_), [this](boost::system::error_code why, std::size_t) {
            if (why) return;
            out_ = {bytes(header_), asio::buffer(here_.at(in_), in_.range.length)};
            asio::async_write(socket_, out_, [this](boost::system::error_code failed, std::size_t) {
                if (!failed) receive();
            });
        });
    }

    stream::socket&                   socket_;
    memory                            here_;
    request                           in_;
    reply const                       header_ = answer(bench::small_bytes);
    std::array<asio::const_buffer, 2> out_;
};

void serve_echo(stream::socket& socket) {
    asio::io_context context{1};
    auto const       protocol = socket.local_endpoint().protocol();
    stream::socket   moved{context, protocol, socket.release()};
    echo_server      all{moved};
    context.run();
}

void echo(benchmark::State& state, carrier how) {
    connection       there{how, serve_echo};
    asio::io_context context{1};
    auto const       protocol = there.socket().local_endpoint().protocol();
    stream::socket   socket{context, protocol, there.socket().release()};

    std::array<std::array<std::byte, bench::small_bytes>, bench::in_flight> out;
    small_ones                                                              small;
    std::size_t                                                             sent = 0, answered = 0;
    request                                                                 next;
    reply                                                                   header;
    bool                                                                    sending = false;
    auto const                                                              send = [&](auto const& self) -> void {
        if (sending || sent == bench::small_reads || sent - answered == bench::in_flight) return;
        sending = true;
        next    = small.next();
        asio::async_write(socket, bytes(next), [&](boost::system::error_code why, std::size_t) {
            bench::check(!why, "write");
            sending = false;
            ++sent;
            self(self);
        });
    };
    auto const receive = [&](auto const& self) -> void {
        asio::async_read(socket, place(header), [&](boost::system::error_code why, std::size_t) {
            bench::check(!why, "read");
            asio::async_read(socket, asio::buffer(out[answered % bench::in_flight]),
                             [&](boost::system::error_code failed, std::size_t) {
                                 bench::check(!failed, "read");
                                 if (++answered == bench::small_reads) return;
                                 send(send);
                                 self(self);
                             });
        });
    };
    measure(state, bench::small_reads, [&] {
        sent = answered = 0;
        send(send);
        receive(receive);
        context.restart();
        context.run();
    });
}

void round_trip(benchmark::State& state, carrier how) {
    connection                                there{how, serve};
    std::array<std::byte, bench::small_bytes> out;
    small_ones                                small;
    measure(state, bench::round_trips, [&] {
        for (std::size_t i = 0; i != bench::round_trips; ++i) {
            reply header;
            asio::write(there.socket(), bytes(small.next()));
            asio::read(there.socket(), std::array<asio::mutable_buffer, 2>{place(header), asio::buffer(out)});
        }
    });
}

auto const raw_registered  = bench::register_remote({"raw", write, read, reads, round_trip});
auto const echo_registered = bench::register_remote({"raw_each", nullptr, nullptr, echo, nullptr});

}  // namespace

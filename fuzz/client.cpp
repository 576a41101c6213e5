// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A client and a server that means no good: answers that are right, nearly right, late, twice, for somebody else,
// of other lengths, and connections that go at any moment. Each call ends, once; no byte goes where it was not
// asked for; and what the client counts makes sense.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <tenure/remote/client.hpp>

#include "input.hpp"

namespace {

namespace protocol = tenure::protocol;
using protocol::operation;

int listening(std::string const& name) {
    ::sockaddr_un a{};
    a.sun_family = AF_UNIX;
    name.copy(a.sun_path, sizeof a.sun_path - 1);
    ::unlink(name.c_str());
    int const fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fuzz::require(::bind(fd, reinterpret_cast<::sockaddr const*>(&a), sizeof a) == 0 && ::listen(fd, 8) == 0,
                  "listen");
    return fd;
}

/// The hostile side: a thread that answers as the input says until it is told to stop.
class server {
public:
    server(int at, fuzz::input in) : at_(at), in_(in), thread_([this] { run(); }) {}
    ~server() {
        ::shutdown(at_, SHUT_RDWR);  // ends accept()
        thread_.join();
    }

private:
    void run() {
        for (int connections = 0; connections != 6; ++connections) {
            int const fd = ::accept4(at_, nullptr, nullptr, SOCK_CLOEXEC);
            if (fd < 0) return;
            ::timeval const patience{0, 200'000};
            ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
            while (answer(fd)) {}
            ::close(fd);
        }
        ::shutdown(at_, SHUT_RDWR);
    }

    static bool receive(int fd, void* into, std::size_t n) {
        return n == 0 || ::recv(fd, into, n, MSG_WAITALL) == static_cast<::ssize_t>(n);
    }
    bool send(int fd, void const* from, std::size_t n) {
        return n == 0 || ::send(fd, from, n, MSG_NOSIGNAL) == static_cast<::ssize_t>(n);
    }

    /// One request, one answer or what passes for it.
    bool answer(int fd) {
        protocol::frame_header h;
        if (!receive(fd, &h, sizeof h)) return false;
        fuzz::require(h.body <= protocol::most_body && h.payload <= protocol::most_payload && h.zero == 0 &&
                          h.status == 0 && h.settled < h.request,
                      "what a client says is a frame");
        std::vector<std::byte> body(h.body), payload(h.payload);
        if (!receive(fd, body.data(), body.size()) || !receive(fd, payload.data(), payload.size())) return false;

        auto const             odd = in_.take<std::uint8_t>();
        protocol::frame_header r;
        std::vector<std::byte> said;
        std::size_t            follows = 0;
        auto const             put     = [&](auto const& t) {
            auto const b = protocol::bytes_of(t);
            said.insert(said.end(), b.begin(), b.end());
        };
        r.request   = h.request;
        r.operation = static_cast<std::uint16_t>(h.operation | protocol::is_reply);
        switch (static_cast<operation>(std::uint16_t{h.operation})) {
        case operation::hello: {
            protocol::hello_reply y;
            y.version      = odd & 64 ? 1 : 2;
            y.lease        = 200;
            y.instance     = odd == 1 ? 8 : 7;
            y.session      = 3;
            y.resumed      = hellos_++ != 0 && odd != 2;
            y.most_body    = protocol::most_body;
            y.most_payload = odd == 3 ? 16 : protocol::most_payload;
            y.in_flight    = odd == 4 ? 1 : 16;
            put(y);
            break;
        }
        case operation::allocate: {
            auto const a = protocol::whole<protocol::allocate_request>(body);
            fuzz::require(a && a->count > 0, "it asks for some blocks");
            protocol::block_run run;
            run.first = (std::uint64_t{1} << 40) + next_;
            run.bytes = a->bytes;
            run.count = a->count;
            next_ += a->count;
            if (odd == 5) run.first = 0;
            if (odd == 6) run.count = in_.take<std::uint64_t>();
            if (odd == 7) run.first = ~std::uint64_t{0} - 1;
            if (odd == 8) run.bytes = run.bytes + 1;
            put(run);
            break;
        }
        case operation::read: {
            auto const a = protocol::whole<protocol::range_request>(body);
            fuzz::require(a && a->length <= protocol::most_payload, "it asks for a range");
            follows = a->length;
            break;
        }
        case operation::end_batch:
        case operation::usage: {
            protocol::usage_reply u;
            u.bytes  = in_.take<std::uint16_t>();
            u.blocks = in_.take<std::uint8_t>();
            if (odd == 9) u.bytes = ~std::uint64_t{0};
            put(u);
            break;
        }
        case operation::open: put(protocol::block_name{std::uint64_t{1} << 40, 100}); break;
        case operation::grant: put(protocol::key{}); break;
        case operation::status: {
            std::string_view const text = "{}";
            auto const             b    = std::as_bytes(std::span(text));
            said.assign(b.begin(), b.end());
            break;
        }
        case operation::trim: {
            auto const runs = protocol::list<protocol::block_run>(body);
            fuzz::require(runs && !runs->empty(), "it says which blocks are smaller");
            for (auto const& run : *runs) fuzz::require(run.first != 0 && run.count != 0, "and names some");
            break;
        }
        default: break;
        }
        switch (odd) {
        case 33:
            r.status = protocol::status_of(make_error_code(tenure::errc::limit_exceeded));
            said.assign(in_.take<std::uint8_t>(), std::byte{'x'});
            follows = 0;
            break;
        case 20: r.status = in_.take<std::uint16_t>() % 40; break;
        case 21: r.status = 4; break;
        case 22: r.request = in_.take<std::uint64_t>(); break;
        case 23: r.operation = in_.take<std::uint16_t>(); break;
        case 24: r.settled = 1; break;
        case 25: follows += in_.take<std::uint16_t>(); break;
        case 26: follows -= std::min<std::size_t>(follows, 1); break;
        case 27: said.resize(in_.take<std::uint16_t>()); break;
        case 28: return false;  // gone
        case 29: return true;   // nothing
        case 30: send(fd, &r, in_.take<std::uint8_t>() % sizeof r); return false;
        case 31: {  // anything
            auto const any = in_.take(in_.take<std::uint8_t>());
            return send(fd, any.data(), any.size());
        }
        default: break;
        }
        if (odd >= 20 && odd <= 21 && r.status != 0 && in_.take<std::uint8_t>() % 4) {
            said.clear();
            follows = 0;
        }
        r.body    = static_cast<std::uint32_t>(said.size());
        r.payload = static_cast<std::uint32_t>(follows);
        std::vector<std::byte> const bytes(std::min<std::size_t>(follows, protocol::most_payload), std::byte{0xaa});
        for (int times = odd == 32 ? 2 : 1; times > 0; --times)
            if (!send(fd, &r, sizeof r) || !send(fd, said.data(), said.size()) ||
                !send(fd, bytes.data(), bytes.size()))
                return false;
        return true;
    }

    int const     at_;
    fuzz::input   in_;
    int           hellos_ = 0;
    std::uint64_t next_   = 1;
    std::thread   thread_;
};

/// A read that is under way, and its memory.
struct pending {
    std::vector<std::byte> out;
    std::atomic<int>       ended{0};
};

void use(tenure::remote_store& s, fuzz::input& in) {
    std::vector<tenure::block>              blocks{{std::uint64_t{1} << 40, 100}};
    std::array<std::unique_ptr<pending>, 8> reads;
    std::size_t                             begun = 0;
    for (int steps = 0; steps != 24; ++steps) {
        auto const b = blocks[in.take<std::uint8_t>() % blocks.size()];
        switch (in.take<std::uint8_t>() % 10) {
        case 0:
        case 1:
            // Of many sizes some are fetched ahead in classes.
            for (std::size_t i = 0, n = in.take<std::uint8_t>(), many = n % 8 == 7 ? 24 : 1; i != many; ++i) {
                auto const made = s.allocate(n + i, 8);
                if (!made) break;
                fuzz::require(made->id != 0, "a block has a number");
                fuzz::require(made->bytes == n + i, "and is as large as was asked for");
                blocks.push_back(*made);
            }
            break;
        case 2:
            if (auto const made = s.allocate_in(1 + in.take<std::uint8_t>() % 2, 64, 8)) blocks.push_back(*made);
            break;
        case 3: {
            std::vector<std::byte> out(in.take<std::uint8_t>(), std::byte{1});
            if (s.read(b, 0, out))
                for (auto const x : out) fuzz::require(x == std::byte{0xaa}, "what was sent is what was read");
            break;
        }
        case 4: static_cast<void>(s.write(b, 0, std::vector<std::byte>(b.bytes))); break;
        case 5: static_cast<void>(s.deallocate({&b, 1})); break;
        case 6: static_cast<void>(s.deallocate_batch(1 + in.take<std::uint8_t>() % 2, {})); break;
        case 7: static_cast<void>(s.transfer({&b, 1}, in.take<std::uint8_t>() % 3)); break;
        case 8: static_cast<void>(s.copy(b, 0, blocks.front(), 0, in.take<std::uint8_t>())); break;
        default: {
            if (begun == reads.size()) break;
            auto& r = reads[begun++] = std::make_unique<pending>();
            r->out.resize(std::min<std::size_t>(b.bytes, 100));
            s.async_read(b, 0, r->out, [p = r.get()](boost::system::error_code) {
                ++p->ended;
                p->ended.notify_one();
            });
        }
        }
        auto const u = s.usage();
        fuzz::require(u.bytes <= ~std::size_t{0} / 2 || u.blocks != 0, "what is counted makes sense");
    }
    for (std::size_t i = 0; i != begun; ++i) reads[i]->ended.wait(0);
    static_cast<void>(s.close());
    for (std::size_t i = 0; i != begun; ++i) fuzz::require(reads[i]->ended == 1, "a call ends once");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    static std::string const path = "/tmp/tenure-fuzz-" + std::to_string(::getpid());
    fuzz::input              in(std::as_bytes(std::span(data, size)));
    auto const               mine = in.take(size / 2);
    int const                at   = listening(path);
    {
        server const there(at, in);
        try {
            tenure::client_options o;
            o.timeout         = std::chrono::milliseconds(60);
            o.connect_timeout = std::chrono::milliseconds(60);
            o.ahead           = size % 2 ? 4096 : 0;
            auto const  s     = tenure::remote_store::connect(tenure::endpoint("unix:" + path), o);
            fuzz::input steps(mine);
            use(*s, steps);
        } catch (tenure::error const& e) {
            fuzz::require(static_cast<bool>(e.code()), "it says why");
        }
    }
    ::close(at);
    return 0;
}

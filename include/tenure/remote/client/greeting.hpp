// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include <boost/asio/buffer.hpp>

#include <tenure/detail/base/secret.hpp>
#include <tenure/remote/client/answers.hpp>
#include <tenure/remote/client/inbox.hpp>
#include <tenure/remote/client/options.hpp>
#include <tenure/remote/protocol.hpp>

namespace tenure::detail::remote {

/// The first request of a connection, and what resumes a session. Allocates only when it is made. Overwrites the
/// token that it sends when it goes.
class greeting {
public:
    /// The options must outlive it.
    explicit greeting(client_options const& o)
        : name_(std::string_view(o.name).substr(0, protocol::most_name)), token_(o.tokens.first()) {
        bytes_.reserve(sizeof(protocol::frame_header) + sizeof(protocol::hello_request) + name_.size() +
                       token_.size());
    }

    void begin(std::uint64_t number, std::uint64_t settled) noexcept {
        protocol::hello_request h;
        h.name_bytes  = static_cast<std::uint16_t>(name_.size());
        h.token_bytes = static_cast<std::uint16_t>(token_.size());
        h.instance    = instance_;
        h.session     = session_;
        h.secret      = secret_;
        protocol::frame_header f;
        f.body      = static_cast<std::uint32_t>(sizeof h + name_.size() + token_.size());
        f.request   = number;
        f.settled   = settled;
        f.operation = static_cast<std::uint16_t>(protocol::operation::hello);
        bytes_.clear();
        for (auto const part : {protocol::bytes_of(f), protocol::bytes_of(h)})
            append({reinterpret_cast<char const*>(part.data()), part.size()});
        append(name_);
        append(token_);
        out_ = 0;
    }

    bool                      is_out() const noexcept { return out_ == bytes_.size(); }
    boost::asio::const_buffer left() const noexcept { return boost::asio::buffer(bytes_) + out_; }
    void                      wrote(std::size_t n) noexcept { out_ += n; }

    struct answer {
        bool                       sound = true, whole = false;
        std::error_code            refused;
        std::span<std::byte const> reason;  ///< which limit was met; in the inbox
        protocol::hello_reply      reply;
    };

    /// Reads the answer to the hello with that number. Takes it out of the inbox once it is whole.
    answer take(inbox& in, std::uint64_t number) const noexcept {
        answer     a;
        auto const bytes = in.bytes();
        if (bytes.size() < sizeof(protocol::frame_header)) return a;
        auto const h = protocol::header(bytes.first<sizeof(protocol::frame_header)>());
        a.sound      = h && is_answer(*h, number);
        if (!a.sound || bytes.size() < sizeof *h + h->body) return a;
        a.refused = protocol::error_of(h->status);
        if (a.refused) a.reason = bytes.subspan(sizeof *h, h->body);
        if (!a.refused) {
            a.reply = *protocol::whole<protocol::hello_reply>(bytes.subspan(sizeof *h, h->body));
            a.sound = is_sound(a.reply);
        }
        a.whole = a.sound;
        in.skip(sizeof *h + h->body);
        return a;
    }

    std::uint64_t instance() const noexcept { return instance_; }

    void keep(protocol::hello_reply const& r) noexcept {
        instance_ = r.instance;
        session_  = r.session;
        secret_   = r.secret;
    }
    /// Makes the next session a new one.
    void forget() noexcept {
        session_ = 0;
        secret_  = {};
    }

private:
    void append(std::string_view s) noexcept { bytes_.insert(bytes_.end(), s.begin(), s.end()); }

    static bool is_answer(protocol::frame_header const& h, std::uint64_t number) noexcept {
        auto const op = static_cast<std::uint16_t>(protocol::operation::hello) | protocol::is_reply;
        return h.operation == op && h.request == number && h.settled == 0 && h.payload == 0 &&
               (h.status == 0 ? h.body == sizeof(protocol::hello_reply) : may_refuse(h));
    }

    /// Returns whether the client can work with the reply.
    bool is_sound(protocol::hello_reply const& r) const noexcept {
        bool const same = r.instance == instance_ && r.session == session_;
        return r.version >= protocol::oldest_version && r.version <= protocol::version && r.resumed <= 1 &&
               (r.resumed == 0 || (session_ != 0 && same)) && r.instance != 0 && r.session != 0 && r.lease != 0 &&
               r.most_body >= protocol::most_hello && r.most_payload != 0 && r.in_flight != 0;
    }

    std::string const name_;
    std::string_view  token_;  ///< in the options
    secret_text       bytes_;
    std::size_t       out_      = 0;
    std::uint64_t     instance_ = 0, session_ = 0;
    protocol::key     secret_{};
};

}  // namespace tenure::detail::remote

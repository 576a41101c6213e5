// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <tenure/error.hpp>
#include <tenure/remote/protocol.hpp>
#include <tenure/result.hpp>

namespace tenure::detail {

/// A client's first message. It refers to the bytes of the frame.
struct greeting {
    protocol::hello_request    hello;
    std::string_view           name;
    std::span<std::byte const> token;
};

/// Returns whether a stranger's first frame may have this header. Checked before the body is received.
inline bool may_greet(protocol::frame_header const& h) noexcept {
    return h.operation == static_cast<std::uint16_t>(protocol::operation::hello) && h.status == 0 &&
           h.body <= protocol::most_hello && h.payload == 0;
}

/// Reads the body of a hello. Errors: protocol_error if it makes no sense.
inline result<greeting> read_greeting(std::span<std::byte const> body) noexcept {
    auto const h = protocol::take<protocol::hello_request>(body);
    if (!h || h->magic != protocol::magic || h->zero != 0 || h->zero_too != 0 ||
        h->purpose > static_cast<std::uint16_t>(protocol::purpose::ticket) || h->name_bytes > protocol::most_name ||
        h->token_bytes > protocol::most_token || body.size() != std::size_t{h->name_bytes} + h->token_bytes)
        return make_error_code(errc::protocol_error);
    return greeting{*h, {reinterpret_cast<char const*>(body.data()), h->name_bytes}, body.subspan(h->name_bytes)};
}

}  // namespace tenure::detail

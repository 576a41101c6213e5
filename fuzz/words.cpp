// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// What both sides make of single frames, and of what people write: headers, bodies, endpoints, files of tokens.

#include <cstring>
#include <string>
#include <string_view>

#include <tenure/remote/endpoint.hpp>
#include <tenure/remote/protocol.hpp>
#include <tenure/remote/trust.hpp>

#include "input.hpp"

namespace {

using fuzz::require;
namespace protocol = tenure::protocol;
using bytes        = std::span<std::byte const>;

template <class T>
void read_as(bytes all) {
    bytes rest = all;
    if (auto const first = protocol::take<T>(rest)) {
        require(rest.size() + sizeof(T) == all.size(), "take() takes one");
        require(std::memcmp(protocol::bytes_of(*first).data(), all.data(), sizeof(T)) == 0, "as it lies there");
    } else {
        require(all.size() < sizeof(T) && rest.size() == all.size(), "too few are left where they are");
    }
    require(protocol::whole<T>(all).has_value() == (all.size() == sizeof(T)), "whole() is all of it");
    auto const many = protocol::list<T>(all);
    require(many.has_value() == (all.size() % sizeof(T) == 0), "a list has no rest");
    if (!many) return;
    require(many->size_bytes() == all.size(), "a list is all of it");
    for (T const& each : *many) require(all.size() >= sizeof each, "and can be read");
}

void read_header(bytes all) {
    if (all.size() < sizeof(protocol::frame_header)) return;
    auto const h = protocol::header(all.first<sizeof(protocol::frame_header)>());
    if (!h) {
        require(h.error() == tenure::errc::protocol_error, "there is one thing wrong with headers");
        return;
    }
    require(h->body <= protocol::most_body && h->payload <= protocol::most_payload, "no more than may be");
    require(h->settled < h->request, "settled before it was asked");
    std::error_code const said = protocol::error_of(h->status);
    require(h->status == 0 ? !said : static_cast<bool>(said), "each status but 0 is an error");
    std::uint16_t const again = protocol::status_of(said);
    require(protocol::error_of(again) == said, "an error stays what it is");
}

void read_endpoint(std::string_view text) {
    try {
        tenure::endpoint const there(text);
        require(!there.where.empty(), "it is somewhere");
        require(there.where.find('\0') == there.where.npos, "the system takes it for what it is");
        require(tenure::endpoint(there.to_text()) == there, "what it is written as is the same");
    } catch (tenure::error const& e) {
        require(e.code() == std::errc::invalid_argument, "it says what kind of error it is");
    }
}

/// The file that an administrator writes by hand.
void read_tokens(std::string_view text) {
    try {
        auto const known = tenure::tokens::from_text(text);
        auto const first = known.first();
        require(known.empty() == first.empty(), "a token is not empty");
        if (known.empty()) return;
        require(first.size() <= protocol::most_token, "nor longer than may be");
        require(text.find(first) != text.npos, "it is what was written");
        require(first.find('\n') == first.npos && first.back() != '\r' && first.back() != ' ', "on one line");
        auto const* const whose = known.find(std::as_bytes(std::span(first)));
        require(whose != nullptr, "who shows it is let in");
        require(text.find(*whose) != text.npos && whose->find(':') == whose->npos, "by the name before it");
        auto const        with_more = std::string(first) + '!';
        auto const* const other     = known.find(std::as_bytes(std::span(with_more)));
        require(!other || text.find(with_more) != text.npos, "and nobody else");
    } catch (tenure::error const& e) {
        require(e.code() == std::errc::invalid_argument, "it says what kind of error it is");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    bytes const all = std::as_bytes(std::span(data, size));
    read_as<protocol::frame_header>(all);
    read_as<protocol::hello_request>(all);
    read_as<protocol::hello_reply>(all);
    read_as<protocol::block_run>(all);
    read_as<protocol::range_request>(all);
    read_as<protocol::send_request>(all);
    read_header(all);
    std::string_view const text(reinterpret_cast<char const*>(data), size);
    read_endpoint(text);
    read_tokens(text);
    return 0;
}

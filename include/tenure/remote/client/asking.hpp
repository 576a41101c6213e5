// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include <tenure/remote/client/call.hpp>

namespace tenure::detail::remote {

/// These functions fill in what a call asks for, whether its caller blocks or not.

inline void ask_blocks(call& c, std::uint64_t batch, std::size_t bytes, std::size_t alignment) noexcept {
    c.what   = protocol::operation::allocate;
    c.batch  = batch;
    c.length = c.room = bytes;
    c.alignment       = alignment;
}

inline void ask_many(call& c, protocol::operation what, std::span<block const> many,
                     std::uint64_t batch = 0) noexcept {
    c.what  = what;
    c.many  = many;
    c.batch = batch;
}

/// Asks for a range of a block. If the range is not in the block, asks only whether the block lives.
inline void ask_range(call& c, protocol::operation what, block b, std::size_t offset, std::byte* memory,
                      std::size_t bytes) noexcept {
    c.what   = what;
    c.b      = b;
    c.beyond = offset > b.bytes || bytes > b.bytes - offset;
    if (c.beyond) {
        c.what = protocol::operation::read;
        return;
    }
    c.offset = offset;
    c.memory = memory;
    c.length = bytes;
}
inline void ask_read(call& c, block b, std::size_t offset, std::span<std::byte> out) noexcept {
    ask_range(c, protocol::operation::read, b, offset, out.data(), out.size());
}
inline void ask_write(call& c, block b, std::size_t offset, std::span<std::byte const> in) noexcept {
    auto* const from = const_cast<std::byte*>(in.data());  // a write only reads it
    ask_range(c, protocol::operation::write, b, offset, from, in.size());
}

inline void ask_copy(call& c, block from, std::size_t from_offset, block to, std::size_t to_offset,
                     std::size_t bytes) noexcept {
    c.what      = protocol::operation::copy;
    c.b         = from;
    c.offset    = from_offset;
    c.to        = to;
    c.to_offset = to_offset;
    c.length    = bytes;
}

/// Asks to send a range to another server, with the ticket that a grant gave there.
inline void ask_send(call& c, block from, std::size_t offset, std::size_t bytes, std::string const& there, block to,
                     std::size_t to_offset, protocol::key const& ticket) {
    ask_range(c, protocol::operation::send, from, offset, nullptr, bytes);
    c.to        = to;
    c.to_offset = to_offset;
    c.ticket    = ticket;
    c.text      = there;
}

/// Asks for share, open or unshare. An invalid name is not sent, but fails with invalid_argument.
inline void ask_name(call& c, protocol::operation what, std::string_view name, block b = {}) {
    c.what = what;
    c.b    = b;
    c.text = name;
    if (name.empty() || name.size() > protocol::most_name)
        c.error = std::make_error_code(std::errc::invalid_argument);
}

}  // namespace tenure::detail::remote

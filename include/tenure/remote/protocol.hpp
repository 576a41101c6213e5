// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <system_error>
#include <type_traits>

#include <boost/endian/arithmetic.hpp>

#include <tenure/error.hpp>
#include <tenure/result.hpp>
#include <tenure/store/concept.hpp>

/// The messages between a client and a server of buffers, as types; docs/protocol.md specifies them. All are
/// packed, little-endian, and lie in a frame as in memory, at any address.
namespace tenure::protocol {

using u16 = boost::endian::little_uint16_t;
using u32 = boost::endian::little_uint32_t;
using u64 = boost::endian::little_uint64_t;

inline constexpr std::uint16_t       version = 2, oldest_version = 1;
inline constexpr std::array<char, 8> magic = {'t', 'e', 'n', 'u', 'r', 'e', ' ', 'R'};

/// The largest body and payload of a frame, in bytes, whatever was agreed. A frame with more is refused by its
/// header.
inline constexpr std::uint32_t most_body = 1 << 20, most_payload = 16 << 20;
/// The largest body of a hello, in bytes. A hello comes from anybody.
inline constexpr std::uint32_t most_hello = 4096;
inline constexpr std::size_t   most_name = 255, most_token = 1024;
/// The longest text that says which limit was met, in bytes.
inline constexpr std::uint32_t most_reason = 255;

enum class operation : std::uint16_t {
    hello      = 1,   ///< hello_request, name, token -> hello_reply
    renew      = 2,   ///< nothing -> nothing
    goodbye    = 3,   ///< nothing -> nothing; ends the session and frees what it had
    allocate   = 4,   ///< allocate_request -> block_run: all or none
    deallocate = 5,   ///< block_run... -> nothing
    transfer   = 6,   ///< batch_request, block_run... -> nothing: all or none
    end_batch  = 7,   ///< batch_request -> usage_reply, of what is left
    read       = 8,   ///< range_request -> payload
    write      = 9,   ///< range_request, payload -> nothing
    copy       = 10,  ///< copy_request -> nothing
    usage      = 11,  ///< nothing -> usage_reply
    share      = 12,  ///< block_name, name -> nothing
    open       = 13,  ///< name -> block_name
    unshare    = 14,  ///< name -> nothing
    grant      = 15,  ///< range_request -> ticket; its holder may write there, once
    send       = 16,  ///< send_request, endpoint -> nothing: the server writes to another server
    status     = 17,  ///< nothing -> JSON text; for the server's own user, on a Unix socket
    trim       = 18,  ///< block_run... -> nothing: these blocks have so many bytes from now on; since version 2
};

inline constexpr std::uint16_t is_reply = 0x8000;

using key = std::array<std::uint8_t, 16>;

struct frame_header {
    u32 body      = 0;  ///< bytes after the header
    u32 payload   = 0;  ///< bytes after the body
    u64 request   = 0;  ///< the client's number, from 1 up; a reply has the same. Hellos leave gaps
    u64 settled   = 0;  ///< requests up to this one are answered, and will not be asked again
    u16 operation = 0;  ///< with is_reply in replies
    u16 status    = 0;  ///< of a reply; 0: done
    u32 zero      = 0;
};

enum class purpose : std::uint16_t { session = 0, ticket = 1 };

struct hello_request {
    std::array<char, 8> magic{protocol::magic};
    u16                 oldest = oldest_version, newest = version;  ///< versions that the client speaks
    u16                 purpose     = 0;
    u16                 name_bytes  = 0;  ///< of the client's name, which is for people
    u16                 token_bytes = 0;
    u16                 zero        = 0;
    u32                 zero_too    = 0;
    u64                 instance    = 0;  ///< to resume: the instance of the server that gave the session
    u64                 session     = 0;  ///< to resume: the session, else 0
    key                 secret{};         ///< of the session; or the ticket
};

struct hello_reply {
    u16 version  = 0;
    u16 resumed  = 0;  ///< 1: the session that was named goes on; 0: this is a new one
    u32 lease    = 0;  ///< ms
    u64 instance = 0;  ///< differs after each start of the server
    u64 session  = 0;
    key secret{};
    u32 most_body    = 0;
    u32 most_payload = 0;
    u32 in_flight    = 0;  ///< the most requests that are not settled
    u32 zero         = 0;
    u64 capacity     = 0;  ///< bytes that this client may have; 0: not known
};

struct block_name {
    u64 id = 0, bytes = 0;
};

/// The blocks first, first + 1, ... of `bytes` bytes each.
struct block_run {
    u64 first = 0, bytes = 0, count = 0;
};

struct allocate_request {
    u64 batch     = 0;  ///< a number of the client's choice; 0: none
    u64 bytes     = 0;  ///< of each block
    u64 alignment = 0;
    u64 count     = 0;
};

struct batch_request {
    u64 batch = 0;
};

struct range_request {
    block_name block;
    u64        offset = 0;
    u64        length = 0;  ///< bytes; of a write, those of its payload
};

struct copy_request {
    block_name from, to;
    u64        from_offset = 0, to_offset = 0, length = 0;
};

struct usage_reply {
    u64 bytes = 0, blocks = 0, capacity = 0;
};

struct send_request {
    range_request from;
    block_name    to;
    u64           to_offset = 0;
    key           ticket{};
};

template <class T>
concept wire_type = std::is_trivially_copyable_v<T> && alignof(T) == 1;

static_assert(wire_type<frame_header> && sizeof(frame_header) == 32);
static_assert(wire_type<hello_request> && sizeof(hello_request) == 56);
static_assert(wire_type<hello_reply> && sizeof(hello_reply) == 64);
static_assert(wire_type<block_run> && sizeof(block_run) == 24);
static_assert(wire_type<range_request> && sizeof(range_request) == 32);
static_assert(wire_type<copy_request> && sizeof(copy_request) == 56);
static_assert(wire_type<send_request> && sizeof(send_request) == 72);

/// The errors that a frame's status stands for, from 1 on. New ones go to the end.
inline constexpr std::array statuses = {
    errc::protocol_error, errc::access_denied, errc::newer_format,  errc::no_such_block,
    errc::store_full,     errc::memory_full,   errc::bad_alignment, errc::out_of_range,
    errc::limit_exceeded, errc::not_copyable,  errc::stale_handle,  errc::device_unavailable,
    errc::disconnected,   errc::timed_out,     errc::store_closed,  errc::read_only,
    errc::corrupt,        errc::no_such_name,
};

/// Returns the status for an error, 0 for none. An error that is not in the list is the server's own trouble: its
/// clients get device_unavailable.
inline std::uint16_t status_of(std::error_code why) noexcept {
    if (!why) return 0;
    auto const at = std::find(statuses.begin(), statuses.end(), why);
    if (at == statuses.end()) return status_of(make_error_code(errc::device_unavailable));
    return static_cast<std::uint16_t>(at - statuses.begin() + 1);
}

/// Returns the error for a status; protocol_error for an unknown one.
inline std::error_code error_of(std::uint16_t status) noexcept {
    if (status == 0) return {};
    if (status > statuses.size()) return make_error_code(errc::protocol_error);
    return make_error_code(statuses[status - 1u]);
}

/// Returns the first bytes as a T and takes them from `from`. Errors: protocol_error if they are too few.
template <wire_type T>
result<T> take(std::span<std::byte const>& from) noexcept {
    if (from.size() < sizeof(T)) return make_error_code(errc::protocol_error);
    T out;
    std::memcpy(&out, from.data(), sizeof(T));
    from = from.subspan(sizeof(T));
    return out;
}

/// Returns all of `from` as one T. Errors: protocol_error if it has another size.
template <wire_type T>
result<T> whole(std::span<std::byte const> from) noexcept {
    if (from.size() != sizeof(T)) return make_error_code(errc::protocol_error);
    return take<T>(from);
}

/// Returns all of `from` as Ts, where they lie. Errors: protocol_error if the last one is cut short.
template <wire_type T>
result<std::span<T const>> list(std::span<std::byte const> from) noexcept {
    if (from.size() % sizeof(T) != 0) return make_error_code(errc::protocol_error);
    return std::span(reinterpret_cast<T const*>(from.data()), from.size() / sizeof(T));
}

template <wire_type T>
std::span<std::byte const> bytes_of(T const& t) noexcept {
    return std::as_bytes(std::span(&t, 1));
}

/// Returns the header in `from`. Errors: protocol_error if it says something impossible.
inline result<frame_header> header(std::span<std::byte const, sizeof(frame_header)> from) noexcept {
    frame_header h;
    std::memcpy(&h, from.data(), sizeof h);
    if (h.body > most_body || h.payload > most_payload || h.request == 0 || h.settled >= h.request || h.zero != 0)
        return make_error_code(errc::protocol_error);
    return h;
}

inline block      block_of(block_name const& b) noexcept { return {b.id, static_cast<std::size_t>(b.bytes)}; }
inline block_name name_of(block b) noexcept { return {b.id, b.bytes}; }

}  // namespace tenure::protocol

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include <tenure/error.hpp>
#include <tenure/result.hpp>
#include <tenure/store/any_store.hpp>

namespace tenure::detail {

/// A place in a block.
struct place_in_block {
    any_store&  store;
    block       where;
    std::size_t offset = 0;

    result<void> read(std::span<std::byte> out) const { return store.read(where, offset, out); }
    result<void> write(std::span<std::byte const> in) const { return store.write(where, offset, in); }

    /// Returns its address. Errors: not_addressable, and what the store says.
    result<std::byte*> address() const {
        result<std::byte*> const first = store.try_address(where);
        return first ? result<std::byte*>(*first + offset) : first;
    }
    place_in_block operator+(std::size_t n) const noexcept { return {store, where, offset + n}; }
};

/// The most bytes that pass through this process at a time.
inline constexpr std::size_t largest_piece = std::size_t{1} << 20;

/// Copies `n` bytes between blocks, by the shortest way: inside the store, straight from or to memory that one of
/// them has here, else through a buffer of this process. Within one block the bytes may overlap. Errors:
/// memory_full, and what the stores say.
inline result<void> copy_block(place_in_block const& from, place_in_block const& to, std::size_t n) {
    bool const        one_store = from.store == to.store, one_block = one_store && from.where == to.where;
    bool const        backwards = from.offset < to.offset;
    std::size_t const apart     = backwards ? to.offset - from.offset : from.offset - to.offset;
    if (n == 0 || (one_block && apart == 0)) return {};
    bool const overlap = one_block && apart < n;
    if (one_store && !overlap && from.store.capabilities().copyable)
        return from.store.try_copy(from.where, from.offset, to.where, to.offset, n);
    if (result<std::byte*> const at = from.address()) {
        if (!overlap) return to.write({*at, n});
        std::memmove(*at - from.offset + to.offset, *at, n);
        return {};
    }
    if (result<std::byte*> const at = to.address()) return from.read({*at, n});

    std::size_t const            piece = std::min(n, largest_piece);
    std::unique_ptr<std::byte[]> bytes(new (std::nothrow) std::byte[piece]);
    if (!bytes) return make_error_code(errc::memory_full);
    for (std::size_t done = 0; done < n; done += piece) {
        std::span<std::byte> const part(bytes.get(), std::min(piece, n - done));
        std::size_t const          at = overlap && backwards ? n - done - part.size() : done;
        if (auto const read = (from + at).read(part); !read) return read;
        if (auto const written = (to + at).write(part); !written) return written;
    }
    return {};
}

/// Fills memory with copies of `value`, which may lie in it. `n` is a multiple of its size.
inline void fill_memory(std::byte* to, std::size_t n, std::span<std::byte const> value) noexcept {
    std::memmove(to, value.data(), value.size());
    std::size_t piece = value.size();  // copied from the beginning, which stays in a cache
    for (std::size_t done = piece; done < n;) {
        std::size_t const part = std::min(piece, n - done);
        std::memcpy(to + done, to, part);
        done += part;
        if (piece < std::size_t{1} << 15) piece = done;
    }
}

/// Fills `n` bytes, a multiple of its size, with copies of `value`: in place if they have an address, else by
/// writes of at most largest_piece, or one value. Errors: memory_full, and what the store says.
inline result<void> fill_block(place_in_block const& to, std::size_t n, std::span<std::byte const> value) {
    if (n == 0) return {};
    if (result<std::byte*> const at = to.address()) {
        fill_memory(*at, n, value);
        return {};
    }
    std::size_t const            whole = std::max<std::size_t>(1, largest_piece / value.size()) * value.size();
    std::size_t const            piece = std::min(n, whole);
    std::unique_ptr<std::byte[]> bytes(new (std::nothrow) std::byte[piece]);
    if (!bytes) return make_error_code(errc::memory_full);
    fill_memory(bytes.get(), piece, value);
    for (std::size_t done = 0; done < n; done += piece)
        if (auto const written = (to + done).write({bytes.get(), std::min(piece, n - done)}); !written)
            return written;
    return {};
}

}  // namespace tenure::detail

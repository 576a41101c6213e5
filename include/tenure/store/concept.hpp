// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

#include <tenure/result.hpp>

namespace tenure {

/// Names one allocation of one store. Only that store knows what `id` means. No id is used twice; 0 names none.
struct block {
    std::uint64_t id    = 0;
    std::size_t   bytes = 0;  ///< as requested, before rounding

    friend auto operator<=>(block const&, block const&) = default;
};

/// What a store can do beyond minimal_store, as a constant of its type. A store has all operations of the concept
/// named like a flag if the flag is set, and else none.
struct store_traits {
    bool addressable  = false;  ///< blocks have an address in this process
    bool anonymous    = false;  ///< blocks are private anonymous memory (MAP_PRIVATE | MAP_ANONYMOUS)
    bool durable      = false;  ///< blocks can be kept by name and then outlive the process
    bool copyable     = false;  ///< copies between its own blocks bypass this process
    bool asynchronous = false;  ///< calls need not wait for the answer
    bool batched      = false;  ///< knows each block's batch, and frees a batch by its number

    friend bool operator==(store_traits const&, store_traits const&) = default;
};

struct store_usage {
    std::size_t bytes    = 0;  ///< in live blocks, as requested
    std::size_t blocks   = 0;
    std::size_t capacity = 0;  ///< the most that `bytes` can be; 0: unknown

    friend bool operator==(store_usage const&, store_usage const&) = default;
};

/// The operations of every store. Several threads may call them at once on different blocks; on one block only
/// reads may overlap. Errors are results, never exceptions. A block that is not live is errc::no_such_block; so
/// are a block of another store and an id with other `bytes` than allocate() returned.
template <class S>
concept minimal_store = requires(S& s, S const& view, std::size_t n, block b, std::span<block const> many,
                                 std::span<std::byte> out, std::span<std::byte const> in) {
    // States what else the store can do. Static and constexpr.
    requires std::same_as<std::remove_cvref_t<decltype(S::traits)>, store_traits>;
    typename std::bool_constant<S::traits.addressable>;

    // Allocates. Arguments: bytes, alignment (a power of two; of the address, if there is one). Zero bytes is a
    // block like any other. Contents are unspecified, but never another client's. Errors: store_full (a limit, a
    // full disk), memory_full, bad_alignment, or the system's; then nothing is held.
    { s.allocate(n, n) } -> std::same_as<result<block>>;

    // Frees a whole batch in one call, in any order, as far as it can. A block that is not live changes nothing
    // and makes the result `no_such_block`, so a caller may repeat the call after a fault. Destructors call this,
    // even because memory ran out: it allocates nothing, and the store reserves what it needs in advance.
    { s.deallocate(many) } noexcept -> std::same_as<result<void>>;

    // Read or write, from an offset, exactly as many bytes as the span holds; or nothing: `out_of_range`. If the
    // medium fails half-way, the contents of `out` (read) or of the block (write) are unspecified.
    { s.read(b, n, out) } -> std::same_as<result<void>>;
    { s.write(b, n, in) } -> std::same_as<result<void>>;

    // Reports usage: exact when the store is at rest; under concurrency it may be slightly old.
    { view.usage() } noexcept -> std::same_as<store_usage>;
};

/// A store whose blocks this process can point into.
template <class S>
concept addressable = requires(S& s, block b) {
    // Returns where the block's bytes are: the same address until deallocate(), never null, not even for zero
    // bytes. read() sees what is written there, and the memory shows what write() wrote.
    { s.address(b) } -> std::same_as<result<std::byte*>>;
};

/// A store whose blocks can outlive the process. Blocks that were not kept are gone at the next open, however the
/// store was left.
template <class S>
concept durable = requires(S& s, block b, std::span<block const> many, std::string_view name) {
    // Gives the block to the store under a name, in place of any block that had the name. The block stays live and
    // may be written; deallocate() ends it and its name. On stable storage only after sync().
    { s.keep(b, name) } -> std::same_as<result<void>>;

    // Returns the block kept under the name. Errors: no_such_block.
    { s.find(name) } -> std::same_as<result<block>>;

    // Returns once contents and names of these blocks are on stable storage. On error nothing is promised for any
    // of them; the call may be repeated.
    { s.sync(many) } -> std::same_as<result<void>>;

    // Syncs all kept blocks and releases the medium. Later calls return store_closed. Without close(), the
    // destructor does the same and drops errors.
    { s.close() } -> std::same_as<result<void>>;
};

/// A store that copies between its own blocks.
template <class S>
concept copyable = requires(S& s, block b, std::size_t n) {
    // Copies. Arguments: from, offset, to, offset, bytes. Both blocks may be the same if the ranges do not
    // overlap. Errors: out_of_range, with nothing copied.
    { s.copy(b, n, b, n, n) } -> std::same_as<result<void>>;
};

namespace detail {

/// Stands for any completion handler, so that the concept needs no Asio.
template <class... T>
struct handler_probe {
    void operator()(std::error_code, T...) const;
};

}  // namespace detail

/// A store with operations that complete later. Each takes any Asio completion token last. What the arguments
/// refer to must stay valid until the handler is called. It is called exactly once.
template <class S>
concept asynchronous = requires(S& s, std::size_t n, block b, std::span<block const> many, std::span<std::byte> out,
                                std::span<std::byte const> in) {
    s.async_allocate(n, n, detail::handler_probe<block>{});
    s.async_deallocate(many, detail::handler_probe<>{});
    s.async_read(b, n, out, detail::handler_probe<>{});
    s.async_write(b, n, in, detail::handler_probe<>{});
};

/// A store that knows each block's batch: one to which a list of blocks is expensive to send, or that shows its
/// users what they hold.
template <class S>
concept batched = requires(S& s, std::size_t n, std::uint64_t batch, std::span<block const> many) {
    // Allocates, as allocate(), in a batch: a number of the caller's choice, not 0. The first block opens the
    // batch. Blocks from allocate() are in none.
    { s.allocate_in(batch, n, n) } -> std::same_as<result<block>>;

    // Moves these blocks to the batch, or to none if it is 0. On error all are where they were.
    { s.transfer(many, batch) } -> std::same_as<result<void>>;

    // Frees a batch that has exactly these blocks, by its number or as deallocate() would. A batch that does not
    // exist changes nothing, so the call may be repeated after a fault. Allocates nothing.
    { s.deallocate_batch(batch, many) } noexcept -> std::same_as<result<void>>;
};

namespace detail {

// names_X<S>: S has a member X, which must then fit the concept.
#define TENURE_NAMES(operation) \
    template <class S>          \
    concept names_##operation = requires { &S::operation; }
TENURE_NAMES(address);
TENURE_NAMES(keep);
TENURE_NAMES(find);
TENURE_NAMES(sync);
TENURE_NAMES(copy);
TENURE_NAMES(allocate_in);
TENURE_NAMES(transfer);
TENURE_NAMES(deallocate_batch);
#undef TENURE_NAMES

template <class S>
concept names_batched = names_allocate_in<S> || names_transfer<S> || names_deallocate_batch<S>;

template <class S>
concept names_async = requires(S& s, std::size_t n, block b, std::span<std::byte> out) {
    s.async_read(b, n, out, handler_probe<>{});
} || requires(S& s, std::size_t n, block b, std::span<std::byte const> in) {
    s.async_write(b, n, in, handler_probe<>{});
} || requires(S& s, std::size_t n) { s.async_allocate(n, n, handler_probe<block>{}); };

}  // namespace detail

/// A complete store. A flag without its operations, or operations without their flag, is a mistake and not a
/// choice: then this is false.
template <class S>
concept backing_store =
    minimal_store<S> && (S::traits.addressable ? addressable<S> : !detail::names_address<S>) &&
    (!S::traits.anonymous || S::traits.addressable) &&
    (S::traits.durable ? durable<S> : !(detail::names_keep<S> || detail::names_find<S> || detail::names_sync<S>)) &&
    (S::traits.copyable ? copyable<S> : !detail::names_copy<S>) &&
    (S::traits.asynchronous ? asynchronous<S> : !detail::names_async<S>) &&
    (S::traits.batched ? batched<S> : !detail::names_batched<S>);

namespace detail {

/// Checks what backing_store checks, but by static_assert: the compiler then names the operation that is wrong.
template <class S>
consteval bool is_whole_store() {
    static_assert(minimal_store<S>,
                  "a store has traits, allocate(), deallocate(), read(), write() and usage(), as in minimal_store");
    constexpr store_traits can = S::traits;
    if constexpr (can.addressable)
        static_assert(addressable<S>, "traits.addressable is set: then address() must be as in addressable");
    else static_assert(!names_address<S>, "the store has address(), but traits.addressable is not set");
    static_assert(can.addressable || !can.anonymous, "traits.anonymous is set, but traits.addressable is not");
    if constexpr (can.durable)
        static_assert(durable<S>,
                      "traits.durable is set: then keep(), find(), sync() and close() must be as in durable");
    else {
        static_assert(!names_keep<S>, "the store has keep(), but traits.durable is not set");
        static_assert(!names_find<S>, "the store has find(), but traits.durable is not set");
        static_assert(!names_sync<S>, "the store has sync(), but traits.durable is not set");
    }
    if constexpr (can.copyable)
        static_assert(copyable<S>, "traits.copyable is set: then copy() must be as in copyable");
    else static_assert(!names_copy<S>, "the store has copy(), but traits.copyable is not set");
    if constexpr (can.asynchronous)
        static_assert(asynchronous<S>,
                      "traits.asynchronous is set: then the async_ operations must be as in asynchronous");
    else static_assert(!names_async<S>, "the store has async_ operations, but traits.asynchronous is not set");
    if constexpr (can.batched)
        static_assert(batched<S>,
                      "traits.batched is set: then allocate_in(), transfer() and deallocate_batch() "
                      "must be as in batched");
    else static_assert(!names_batched<S>, "the store has operations on batches, but traits.batched is not set");
    return true;
}

}  // namespace detail

/// A store that says what messages call it: a path, an address. Other stores go by the name of their type.
template <class S>
concept described = requires(S const& s) {
    { s.describe() } -> std::convertible_to<std::string>;
};

}  // namespace tenure

template <>
struct std::hash<tenure::block> {
    std::size_t operator()(tenure::block const& b) const noexcept { return std::hash<std::uint64_t>{}(b.id); }
};

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

/// Names one allocation of one store. Only that store can say what `id` means; it is never used twice, and 0 names
/// none.
struct block {
    std::uint64_t id    = 0;
    std::size_t   bytes = 0;  ///< as asked for, not as rounded

    friend auto operator<=>(block const&, block const&) = default;
};

/// What a store can do beyond the least: a constant of its type. For each flag the store must have all operations
/// of the concept of the same name below, and without the flag none of them.
struct store_traits {
    bool addressable  = false;  ///< blocks have an address in this process
    bool anonymous    = false;  ///< and are its private anonymous memory (MAP_PRIVATE | MAP_ANONYMOUS)
    bool durable      = false;  ///< blocks can be kept by name, and then outlive the process
    bool copyable     = false;  ///< copies between its own blocks without passing through this process
    bool asynchronous = false;  ///< can be called without waiting for the answer
    bool batched      = false;  ///< knows blocks by batch, and frees a batch by its number

    friend bool operator==(store_traits const&, store_traits const&) = default;
};

struct store_usage {
    std::size_t bytes    = 0;  ///< in live blocks, as asked for
    std::size_t blocks   = 0;
    std::size_t capacity = 0;  ///< the most that `bytes` can be; 0: not known

    friend bool operator==(store_usage const&, store_usage const&) = default;
};

/// The least that a backend does. Every operation may be called from several threads at once, on different blocks;
/// on one block only reads may overlap. What goes wrong is a result, never an exception. A block that is not live
/// is errc::no_such_block wherever it is named, one of another store or of an earlier time included; `bytes` of a
/// block that is named must be what allocate() gave.
template <class S>
concept minimal_store = requires(S& s, S const& view, std::size_t n, block b, std::span<block const> many,
                                 std::span<std::byte> out, std::span<std::byte const> in) {
    // Static and constexpr: what else the store can do.
    requires std::same_as<std::remove_cvref_t<decltype(S::traits)>, store_traits>;
    typename std::bool_constant<S::traits.addressable>;

    // Bytes, alignment (a power of two; of the address, where there is one). Zero bytes is a block like any other.
    // Contents are unspecified, but never another client's. On error nothing is held: store_full (a limit, a full
    // disk), memory_full, bad_alignment, or what the system said.
    { s.allocate(n, n) } -> std::same_as<result<block>>;

    // A whole batch in one call, in any order. Frees all that it can. A block that is not live changes nothing and
    // makes the result `no_such_block`: so a caller may simply repeat the call after a fault. It runs in
    // destructors, perhaps because memory ran out: it allocates nothing, for the store has set aside what it needs.
    { s.deallocate(many) } noexcept -> std::same_as<result<void>>;

    // Offset, then exactly as many bytes as the span holds: all, or `out_of_range` and nothing. Where the medium
    // fails half-way, what a read left in `out` or a write in the block is unspecified.
    { s.read(b, n, out) } -> std::same_as<result<void>>;
    { s.write(b, n, in) } -> std::same_as<result<void>>;

    // May be a moment old under concurrency; exact when the store is at rest.
    { view.usage() } noexcept -> std::same_as<store_usage>;
};

/// Blocks that this process can point into.
template <class S>
concept addressable = requires(S& s, block b) {
    // Where the block's bytes are: the same answer until it is deallocated, and never null, not even for zero
    // bytes. What is written there is what read() finds, and the other way round.
    { s.address(b) } -> std::same_as<result<std::byte*>>;
};

/// Blocks that can outlive the process. What is not kept is gone when the store is opened next, however it was
/// left.
template <class S>
concept durable = requires(S& s, block b, std::span<block const> many, std::string_view name) {
    // The block is the store's own from now on, under that name, which replaces what had it before. It stays live
    // and may be written; deallocate() ends it and its name. In this state on stable storage only after sync().
    { s.keep(b, name) } -> std::same_as<result<void>>;

    // What was kept under that name; no_such_block: nothing was.
    { s.find(name) } -> std::same_as<result<block>>;

    // On return, contents and names of these blocks are on stable storage. On error nothing is promised of any of
    // them; the call may be repeated.
    { s.sync(many) } -> std::same_as<result<void>>;

    // Syncs what is kept and gives up the medium. Afterwards every call is store_closed. Without it the destructor
    // does the same, and nobody hears of its errors.
    { s.close() } -> std::same_as<result<void>>;
};

/// Copies inside the store.
template <class S>
concept copyable = requires(S& s, block b, std::size_t n) {
    // From, offset, to, offset, bytes. out_of_range: nothing was copied. The two may be one block if the ranges do
    // not overlap.
    { s.copy(b, n, b, n, n) } -> std::same_as<result<void>>;
};

namespace detail {

/// Stands for any completion handler, so that the concept needs no Asio.
template <class... T>
struct handler_probe {
    void operator()(std::error_code, T...) const;
};

}  // namespace detail

/// Answers that need not be waited for. Each takes any completion token of Asio last; what is passed in must stay
/// until the handler is called, which happens exactly once.
template <class S>
concept asynchronous = requires(S& s, std::size_t n, block b, std::span<block const> many, std::span<std::byte> out,
                                std::span<std::byte const> in) {
    s.async_allocate(n, n, detail::handler_probe<block>{});
    s.async_deallocate(many, detail::handler_probe<>{});
    s.async_read(b, n, out, detail::handler_probe<>{});
    s.async_write(b, n, in, detail::handler_probe<>{});
};

/// Blocks that the store knows by batch: for one to which a list of them is far to carry, or that shows its users
/// what they hold.
template <class S>
concept batched = requires(S& s, std::size_t n, std::uint64_t batch, std::span<block const> many) {
    // As allocate(), in that batch: a number of the caller's choice, not 0, that the first block in it opens. What
    // allocate() gives is in none.
    { s.allocate_in(batch, n, n) } -> std::same_as<result<block>>;

    // These are in that batch from now on, or in none if it is 0. On error all are where they were.
    { s.transfer(many, batch) } -> std::same_as<result<void>>;

    // Frees the batch, which has just these blocks: by its number, or as deallocate() of them. A batch that is not
    // there changes nothing, so the call may be repeated after a fault; and it allocates nothing.
    { s.deallocate_batch(batch, many) } noexcept -> std::same_as<result<void>>;
};

namespace detail {

// Whether S has anything of that name: then it must be the right thing.
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

/// A flag without its operations, or operations without their flag, is a mistake and not a choice.
template <class S>
concept backing_store =
    minimal_store<S> && (S::traits.addressable ? addressable<S> : !detail::names_address<S>) &&
    (!S::traits.anonymous || S::traits.addressable) &&
    (S::traits.durable ? durable<S> : !(detail::names_keep<S> || detail::names_find<S> || detail::names_sync<S>)) &&
    (S::traits.copyable ? copyable<S> : !detail::names_copy<S>) &&
    (S::traits.asynchronous ? asynchronous<S> : !detail::names_async<S>) &&
    (S::traits.batched ? batched<S> : !detail::names_batched<S>);

namespace detail {

/// As backing_store, but it does not compile instead of being false: then the compiler names the operation.
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

/// What a store may be called in messages: a path, an address. Stores without it go by their type's name.
template <class S>
concept described = requires(S const& s) {
    { s.describe() } -> std::convertible_to<std::string>;
};

}  // namespace tenure

template <>
struct std::hash<tenure::block> {
    std::size_t operator()(tenure::block const& b) const noexcept { return std::hash<std::uint64_t>{}(b.id); }
};

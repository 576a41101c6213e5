// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <compare>
#include <concepts>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <tenure/detail/base/sizes.hpp>
#include <tenure/detail/buffers/buffer_calls.hpp>
#include <tenure/handle.hpp>
#include <tenure/lane.hpp>
#include <tenure/raise.hpp>

namespace tenure {

namespace detail {

/// Returns the value of `f()`. If `f` throws tenure::error or std::bad_alloc, that is the error.
template <class F>
auto as_result(F f) -> result<decltype(f())> {
    using R        = result<decltype(f())>;
    auto const run = [&]() -> R {
        if constexpr (!std::is_void_v<decltype(f())>) return f();
        else return f(), R();
    };
    auto const full   = [](std::bad_alloc const&) { return make_error_code(errc::memory_full); };
    auto const failed = [](error const& e) { return e.code(); };
    return run_or<error>([&] { return run_or<std::bad_alloc>(run, full); }, failed);
}

/// The alignment that a store is asked for: that of T, and at least that of malloc.
template <class T>
inline constexpr std::size_t buffer_alignment = alignof(T) < 16 ? 16 : alignof(T);

}  // namespace detail

/// Refers to an array of T in a store, without owning it: its batch does, as with a handle. 24 bytes, trivially
/// copyable. Offsets and sizes count elements.
///
/// A freed buffer is stale for ever: every call throws stale_handle, or `expired` or `cancelled` if that is why.
/// An evicted one (tenure/derived.hpp) is made again by the first call that needs its bytes, or that call throws
/// errc::evicted.
///
/// Any thread may use any copy. On one buffer only reads may overlap, and no thread may free it meanwhile:
/// borrow() it if another thread might.
///
/// Errors of the store are thrown with its name; the try_ forms return them. Whatever fails, the buffer stays
/// where it was. How much of a write was done when the medium failed in the middle depends on the store.
template <class T>
class buffer {
    static_assert(std::is_trivially_copyable_v<T>, "a buffer's elements are copied as bytes");
    static_assert(!std::is_const_v<T>, "a buffer of constants could never be written");

public:
    using element_type = T;

    buffer() noexcept = default;        ///< null: stale from the start
    buffer(std::nullptr_t) noexcept {}  // NOLINT(google-explicit-constructor): as a pointer

    std::size_t size() const noexcept { return size_; }
    bool        alive() const noexcept { return detail::is_alive(raw()); }

    /// Returns whether it was ever given a buffer, as handle's does.
    explicit operator bool() const noexcept { return word_ != 0; }

    /// The batch that would free it. Throws stale_handle.
    batch_id owner() const { return detail::owner_id(raw()); }

    /// Copies out.size() elements from `offset` on. Throws stale_handle, out_of_range, std::bad_alloc, what the
    /// store reports.
    void read(std::size_t offset, std::span<T> out) const {
        detail::read_buffer(view(), offset, std::as_writable_bytes(out));
    }
    void write(std::size_t offset, std::span<T const> in) const {
        detail::write_buffer(view(), offset, std::as_bytes(in));
    }

    result<void> try_read(std::size_t offset, std::span<T> out) const {
        return detail::try_read_buffer(view(), offset, std::as_writable_bytes(out));
    }
    result<void> try_write(std::size_t offset, std::span<T const> in) const {
        return detail::try_write_buffer(view(), offset, std::as_bytes(in));
    }

    /// Returns all elements as memory of this process, unchecked like any span once the buffer is freed or moved.
    /// Throws stale_handle, not_addressable, std::bad_alloc.
    std::span<T> map() const { return {reinterpret_cast<T*>(detail::map_buffer(view())), size_}; }

    /// Copies all elements to the beginning of `other`, which may be in another store. Within a store that can
    /// copy, the bytes do not pass through this process. Throws stale_handle, std::bad_alloc, what the stores
    /// report, and out_of_range if `other` is shorter.
    void copy_to(buffer const& other) const { detail::copy_buffer(view(), other.view()); }

    /// Moves the buffer to another store, where this and all other copies name it from then on. On failure it is
    /// where it was, whole. No thread may use the buffer meanwhile. Throws stale_handle, object_pinned,
    /// not_restorable, batch_ended, limit_exceeded, memory_full, what the stores report.
    void move_to(any_store const& store) const { detail::move_buffer(view(), store); }

    /// Returns the stores that the buffer is in. Throws stale_handle.
    std::vector<any_store> stores() const { return {detail::store_of_buffer(view())}; }

    /// Returns the store's own name for the buffer. Throws stale_handle.
    tenure::block block() const { return detail::block_of_buffer(view()); }

    /// Gives the buffer to its durable store under `name`, so that it outlives the batch and, once synced, the
    /// process: see batch_scope::open_buffer. The buffer can be used until the batch ends. Throws stale_handle,
    /// not_durable, not_restorable, batch_ended, what the store reports.
    void persist(std::string_view name) const { detail::persist_named(view(), name); }

    /// Returns once what persist() kept is on stable storage. For many buffers: tenure::sync. Throws as persist().
    void sync() const { detail::sync_buffer(view()); }

    friend bool operator==(buffer const&, buffer const&) noexcept  = default;
    friend auto operator<=>(buffer const&, buffer const&) noexcept = default;

private:
    friend detail::handle_access;
    friend std::hash<buffer>;

    detail::raw_handle     raw() const noexcept { return {record_, word_}; }
    detail::untyped_buffer view() const noexcept {
        return {record_, word_, 0, size_, sizeof(T), detail::buffer_alignment<T>};
    }

    detail::buffer_record const* record_ = nullptr;
    detail::word_t               word_   = 0;
    std::size_t                  size_   = 0;
};

namespace detail {

template <class T>
inline constexpr bool is_buffer_handle<buffer<T>> = true;

template <class T>
buffer<T> make_buffer_in(lane& l, std::size_t n, any_store const& store) {
    std::size_t const bytes = array_bytes(n, sizeof(T));
    return handle_access::make_buffer<buffer<T>>(make_buffer(l, bytes, buffer_alignment<T>, store), n);
}

template <class T>
result<buffer<T>> try_make_buffer_in(lane& l, std::size_t n, any_store const& store) {
    return as_result([&] { return make_buffer_in<T>(l, n, store); });
}

/// A range that is an array in memory.
template <class R>
concept contiguous_elements = requires(R& r) {
    { std::begin(r) } -> std::contiguous_iterator;
    { std::size(r) } -> std::convertible_to<std::size_t>;
};

template <class T>
buffer<T> make_buffer_of_array(lane& l, void const* first, std::size_t n, any_store const& store) {
    std::span const  bytes(static_cast<std::byte const*>(first), array_bytes(n, sizeof(T)));
    raw_handle const h = make_written_buffer(l, bytes, buffer_alignment<T>, store);
    return handle_access::make_buffer<buffer<T>>(h, n);
}

template <class R>
buffer<element_of<R>> make_buffer_of(lane& l, R& elements, any_store const& store) {
    using T = element_of<R>;
    if constexpr (contiguous_elements<R>) {
        return make_buffer_of_array<T>(l, std::to_address(std::begin(elements)),
                                       static_cast<std::size_t>(std::size(elements)), store);
    } else {
        struct element {
            T value;
        };
        std::vector<element> all;  // not of T: a std::vector<bool> is no array
        auto const           end = std::end(elements);
        for (auto at = std::begin(elements); at != end; ++at) all.push_back({static_cast<T>(*at)});
        return make_buffer_of_array<T>(l, all.data(), all.size(), store);
    }
}

template <class R>
result<buffer<element_of<R>>> try_make_buffer_of(lane& l, R& elements, any_store const& store) {
    return as_result([&] { return make_buffer_of(l, elements, store); });
}

template <class T>
buffer<T> open_buffer_as(lane& l, std::string_view name, any_store const& store) {
    std::size_t      bytes = 0;
    raw_handle const h     = open_buffer(l, name, store, sizeof(T), bytes);
    return handle_access::make_buffer<buffer<T>>(h, bytes / sizeof(T));
}

}  // namespace detail

/// As buffer::sync for each, in one call of each store.
template <detail::handle_range R>
    requires detail::is_buffer_handle<std::iter_value_t<decltype(std::begin(std::declval<R const&>()))>>
void sync(R const& buffers) {
    std::vector<detail::stored_block> all;
    for (auto const& b : buffers) all.push_back({b.stores().front(), b.block()});
    detail::sync_blocks(all);
}

}  // namespace tenure

template <class T>
struct std::hash<tenure::buffer<T>> {
    std::size_t operator()(tenure::buffer<T> const& b) const noexcept {
        return std::hash<std::uint64_t>{}(reinterpret_cast<std::uintptr_t>(b.record_) ^ b.word_ << 7);
    }
};

#ifndef TENURE_SEPARATE
#include <tenure/impl/buffer.ipp>
#endif

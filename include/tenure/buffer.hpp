// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
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
#include <tenure/detail/buffers/adopted_memory.hpp>
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

template <class E>
class buffer_slice;

/// Which elements copy_to() copies, and where to.
struct copied_part {
    std::size_t from  = 0;  ///< the first one's place in the buffer that is copied
    std::size_t to    = 0;  ///< and in the other one
    std::size_t count = 0;
};

/// Rows of a matrix in a buffer, or of a part of one. Counts elements.
struct row_layout {
    std::size_t offset = 0;  ///< where the first row begins
    std::size_t count  = 0;  ///< elements of each row that are read or written
    std::size_t stride = 0;  ///< from the beginning of a row to that of the next; at least `count`
};

namespace detail {

/// What one can do with the elements of a buffer, of a slice and of a frozen buffer. Offsets and sizes count
/// elements. `E` is const where they can only be read.
template <class Self, class E>
class buffer_elements {
    using T = std::remove_const_t<E>;
    static_assert(std::is_trivially_copyable_v<T>, "a buffer's elements are copied as bytes");

public:
    using element_type = E;

    bool alive() const noexcept { return is_alive(all().raw()); }

    /// The batch that would free the buffer. Throws stale_handle.
    batch_id owner() const { return owner_id(all().raw()); }

    /// Returns the stores that the buffer is in. Throws stale_handle.
    std::vector<any_store> stores() const { return {store_of_buffer(all())}; }

    /// Copies out.size() elements from `offset` on. Throws stale_handle, out_of_range, std::bad_alloc, what the
    /// store reports.
    void read(std::size_t offset, std::span<T> out) const {
        read_buffer(all(), offset, std::as_writable_bytes(out));
    }
    void write(std::size_t offset, std::span<T const> in) const
        requires(!std::is_const_v<E>)
    {
        write_buffer(all(), offset, std::as_bytes(in));
    }

    result<void> try_read(std::size_t offset, std::span<T> out) const {
        return try_read_buffer(all(), offset, std::as_writable_bytes(out));
    }
    result<void> try_write(std::size_t offset, std::span<T const> in) const
        requires(!std::is_const_v<E>)
    {
        return try_write_buffer(all(), offset, std::as_bytes(in));
    }

    /// Copies rows of a matrix to memory where they follow each other, or from there: read_rows({.offset = 2,
    /// .count = 3, .stride = 10}, out) reads three columns of ten. `out` or `in` holds whole rows, as many as are
    /// copied. Throws as read(), and out_of_range, with nothing copied, also for part of a row and rows that would
    /// overlap. Cost: that of copying the rows where the store has an address for them; else a call of the store
    /// for each row, or one for all if there is nothing between them.
    void read_rows(row_layout const& rows, std::span<T> out) const {
        detail::read_rows(all(), bytes_of(rows), std::as_writable_bytes(out));
    }
    void write_rows(row_layout const& rows, std::span<T const> in) const
        requires(!std::is_const_v<E>)
    {
        detail::write_rows(all(), bytes_of(rows), std::as_bytes(in));
    }

    result<void> try_read_rows(row_layout const& rows, std::span<T> out) const {
        return detail::try_read_rows(all(), bytes_of(rows), std::as_writable_bytes(out));
    }
    result<void> try_write_rows(row_layout const& rows, std::span<T const> in) const
        requires(!std::is_const_v<E>)
    {
        return detail::try_write_rows(all(), bytes_of(rows), std::as_bytes(in));
    }

    /// Makes all elements, or `count` from `offset` on, copies of `value`. Throws as read(). Cost: in place where
    /// the store has an address for them; else writes of 1 MiB, from as much memory here.
    void fill(T const& value) const
        requires(!std::is_const_v<E>)
    {
        fill(0, self().size(), value);
    }
    void fill(std::size_t offset, std::size_t count, T const& value) const
        requires(!std::is_const_v<E>)
    {
        fill_buffer(all(), offset, count, std::as_bytes(std::span(&value, 1)));
    }

    result<void> try_fill(T const& value) const
        requires(!std::is_const_v<E>)
    {
        return try_fill(0, self().size(), value);
    }
    result<void> try_fill(std::size_t offset, std::size_t count, T const& value) const
        requires(!std::is_const_v<E>)
    {
        return try_fill_buffer(all(), offset, count, std::as_bytes(std::span(&value, 1)));
    }

    /// Returns all elements as memory of this process, unchecked like any span once the buffer is freed or moved.
    /// Throws stale_handle, not_addressable, std::bad_alloc.
    std::span<E> map() const { return {reinterpret_cast<E*>(map_buffer(all())), self().size()}; }

    /// Copies all elements to the beginning of `other`, a buffer or a slice, which may be in another store. Within
    /// a store that can copy, the bytes do not pass through this process. Elements of one buffer may overlap, as
    /// for std::memmove; these do pass through this process. Throws stale_handle, std::bad_alloc, what the stores
    /// report, and out_of_range if `other` is shorter.
    void copy_to(buffer_slice<T> const& other) const;

    /// Copies some elements only. Throws as copy_to(other), and out_of_range if one side has no such part.
    void copy_to(buffer_slice<T> const& other, copied_part const& part) const;

    result<void> try_copy_to(buffer_slice<T> const& other) const;
    result<void> try_copy_to(buffer_slice<T> const& other, copied_part const& part) const;

    /// Returns a part. Throws out_of_range, or stale_handle in its place. Cost: a comparison; no look at the
    /// buffer.
    buffer_slice<E> slice(std::size_t offset, std::size_t count) const;

    friend bool operator==(buffer_elements const&, buffer_elements const&) noexcept  = default;
    friend auto operator<=>(buffer_elements const&, buffer_elements const&) noexcept = default;

private:
    friend Self;
    buffer_elements() noexcept = default;

    static buffer_rows bytes_of(row_layout const& rows) noexcept { return {rows.offset, rows.count, rows.stride}; }

    Self const&    self() const noexcept { return static_cast<Self const&>(*this); }
    untyped_buffer all() const noexcept { return handle_access::view(self()); }
};

}  // namespace detail

/// Refers to an array of T in a store, without owning it: its batch does, as with a handle. 24 bytes, trivially
/// copyable. Offsets and sizes count elements. What one can do with these is in detail::buffer_elements.
///
/// A freed buffer is stale for ever: every call throws stale_handle, or `expired` or `cancelled` if that is why.
/// An evicted one (tenure/derived.hpp) is made again by the first call that needs its bytes, or that call throws
/// errc::evicted.
///
/// Any thread may use any copy. On one buffer only reads may overlap, and no thread may free it meanwhile:
/// borrow() it if another thread might.
///
/// Errors of the store are thrown with its name; the try_ forms return them. Whatever fails, the buffer stays
/// where it was. How much of a write, a fill or a copy was done when the medium failed in the middle depends on
/// the store.
template <class T>
class buffer : public detail::buffer_elements<buffer<T>, T> {
    static_assert(!std::is_const_v<T>, "a buffer of constants could never be written");

public:
    buffer() noexcept = default;        ///< null: stale from the start
    buffer(std::nullptr_t) noexcept {}  // NOLINT(google-explicit-constructor): as a pointer

    std::size_t size() const noexcept { return size_; }

    /// Returns whether it was ever given a buffer, as handle's does.
    explicit operator bool() const noexcept { return word_ != 0; }

    /// Moves the buffer to another store, where this and all other copies name it from then on. On failure it is
    /// where it was, whole. No thread may use the buffer meanwhile. Throws stale_handle, object_pinned,
    /// not_restorable, batch_ended, limit_exceeded, memory_full, what the stores report.
    void move_to(any_store const& store) const { detail::move_buffer(view(), store); }

    /// Returns a buffer of `n` elements that takes the place of this one, in the same batch and store: with the
    /// first of its elements, as many as both have, and unspecified ones after these. This one is freed. All its
    /// copies are stale from then on, and not of another size, because each copy and slice knows what it may reach.
    /// On failure everything is as before. A name in the store or in saves and a derivation stay behind.
    ///
    /// While it copies, both blocks are there and count towards the batch's limits. No thread may use the buffer
    /// meanwhile. Throws stale_handle, object_pinned, not_restorable, batch_ended, limit_exceeded, memory_full,
    /// what the store reports, and not_owner if it is shared. Cost: that of make_buffer(), copy_to() and free().
    [[nodiscard]] buffer resize(std::size_t n) const {
        auto const made = detail::resize_buffer(view(), detail::array_bytes(n, sizeof(T)));
        return detail::handle_access::make_buffer<buffer>(made, n);
    }
    [[nodiscard]] result<buffer> try_resize(std::size_t n) const {
        return detail::as_result([&] { return resize(n); });
    }

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

/// Refers to some elements of a buffer, or to all: b.slice(10, 5), or a buffer where a slice is asked for. 32
/// bytes, trivially copyable. buffer_slice<E const> only reads. What one can do with the elements is in
/// detail::buffer_elements; offsets count from the slice's first one.
///
/// It owns nothing: keep and free the buffer. It goes where the buffer moves, and is stale when the buffer is.
/// Slices of one buffer that do not overlap are still one buffer to other threads: only reads may overlap in time.
template <class E>
class buffer_slice : public detail::buffer_elements<buffer_slice<E>, E> {
public:
    buffer_slice() noexcept = default;  ///< null: stale from the start

    /// All elements of a buffer, a frozen buffer, or another slice.
    template <class B>
        requires std::is_convertible_v<typename B::element_type (*)[], E (*)[]> &&
                 std::is_base_of_v<detail::buffer_elements<B, typename B::element_type>, B>
    buffer_slice(B const& all) noexcept  // NOLINT(google-explicit-constructor): it gives less
        : buffer_slice(detail::handle_access::view(all)) {}

    std::size_t size() const noexcept { return size_; }

    /// Returns the place of the first element in the buffer.
    std::size_t offset() const noexcept { return begin_; }

    friend bool operator==(buffer_slice const&, buffer_slice const&) noexcept  = default;
    friend auto operator<=>(buffer_slice const&, buffer_slice const&) noexcept = default;

private:
    friend detail::handle_access;
    template <class, class>
    friend class detail::buffer_elements;

    explicit buffer_slice(detail::untyped_buffer const& part) noexcept
        : record_(part.record), word_(part.word), begin_(part.begin), size_(part.size) {}

    detail::untyped_buffer view() const noexcept {
        return {record_, word_, begin_, size_, sizeof(E), detail::buffer_alignment<E>};
    }

    detail::buffer_record const* record_ = nullptr;
    detail::word_t               word_   = 0;
    std::size_t                  begin_  = 0;
    std::size_t                  size_   = 0;
};

namespace detail {

template <class Self, class E>
void buffer_elements<Self, E>::copy_to(buffer_slice<T> const& other) const {
    copy_buffer(all(), handle_access::view(other));
}
template <class Self, class E>
void buffer_elements<Self, E>::copy_to(buffer_slice<T> const& other, copied_part const& part) const {
    slice(part.from, part.count).copy_to(other.slice(part.to, part.count));
}
template <class Self, class E>
result<void> buffer_elements<Self, E>::try_copy_to(buffer_slice<T> const& other) const {
    return as_result([&] { copy_to(other); });
}
template <class Self, class E>
result<void> buffer_elements<Self, E>::try_copy_to(buffer_slice<T> const& other, copied_part const& part) const {
    return as_result([&] { copy_to(other, part); });
}
template <class Self, class E>
buffer_slice<E> buffer_elements<Self, E>::slice(std::size_t offset, std::size_t count) const {
    return buffer_slice<E>(part_of(all(), offset, count));
}

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

template <class T, class Deleter>
buffer<T> adopt_buffer_in(lane& l, std::span<T> memory, Deleter deleter) {
    T* const first = memory.data();
    if (!first || reinterpret_cast<std::uintptr_t>(first) % alignof(T))
        raise(error(errc::bad_address, "adopt a buffer"));
    std::size_t const bytes = array_bytes(memory.size(), sizeof(T));
    auto              all   = std::make_unique<adopted_elements<T, Deleter>>(first, bytes, std::move(deleter));
    return handle_access::make_buffer<buffer<T>>(adopt_buffer(l, std::move(all)), memory.size());
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

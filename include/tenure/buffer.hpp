// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <functional>
#include <iterator>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <tenure/detail/base/sizes.hpp>
#include <tenure/detail/buffers/buffer_access.hpp>
#include <tenure/detail/buffers/durable_buffers.hpp>
#include <tenure/detail/buffers/evicting.hpp>
#include <tenure/detail/checkpoints/rolling_back.hpp>
#include <tenure/handle.hpp>

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

    buffer() noexcept = default;  ///< null: stale from the start

    std::size_t size() const noexcept { return size_; }
    bool        alive() const noexcept { return detail::is_alive(raw()); }

    /// Returns the batch that would free the buffer. Throws stale_handle.
    batch_id owner() const { return detail::owner_id(raw()); }

    /// Copies out.size() elements from `offset` on. Throws stale_handle, out_of_range, std::bad_alloc, what the
    /// store reports.
    void read(std::size_t offset, std::span<T> out) const {
        for (;;) {
            if (!ready(offset, out.size())) [[unlikely]]
                prepare(offset, out.size(), "read from");
            here const at(*this);
            if (at) return must(read_here(offset, out), "read from");
            at.memory_or_throw();
        }
    }
    /// Copies `in` to `offset` on. Writing the whole of an evicted buffer needs no derivation. Throws as read().
    void write(std::size_t offset, std::span<T const> in) const {
        for (;;) {
            if (!ready(offset, in.size())) [[unlikely]] {
                must(refused(offset, in.size()), "write to");
                if (in.size() == size_ && !record().is_here())
                    return detail::write_anew(raw(), detail::buffer_alignment<T>, std::as_bytes(in));
                present();
            }
            here const at(*this);
            if (at) return must(write_here(offset, in), "write to");
            at.memory_or_throw();
        }
    }

    /// As read(), but returns the error.
    result<void> try_read(std::size_t offset, std::span<T> out) const {
        if (!ready(offset, out.size())) [[unlikely]]
            if (auto const why = refused(offset, out.size()); !why) return why;
        if (here const at(*this); at) return read_here(offset, out);
        return detail::as_result([&] { read(offset, out); });
    }
    /// As write(), but returns the error.
    result<void> try_write(std::size_t offset, std::span<T const> in) const {
        if (!ready(offset, in.size())) [[unlikely]]
            if (auto const why = refused(offset, in.size()); !why) return why;
        if (here const at(*this); at) return write_here(offset, in);
        return detail::as_result([&] { write(offset, in); });
    }

    /// Returns all elements as memory of this process, unchecked like any span once the buffer is freed or moved.
    /// Throws stale_handle, not_addressable, std::bad_alloc.
    std::span<T> map() const {
        for (;;) {
            present();
            here const at(*this);
            at.memory_or_throw();
            if (!at) continue;
            result<std::byte*> const first = record().from->store.try_address(record().where);
            if (!first) fail(first.error(), "map a buffer of");
            if (record().mapped() || detail::note_mapped(raw())) return {reinterpret_cast<T*>(*first), size_};
        }
    }

    /// Copies all elements to the beginning of `other`, which may be in another store. Within a store that can
    /// copy, the bytes do not pass through this process. Throws stale_handle, std::bad_alloc, what the stores
    /// report, and out_of_range if `other` is shorter.
    void copy_to(buffer const& other) const {
        for (;;) {
            detail::buffer_record const &from = present(), &to = other.present();
            if (other.size_ < size_) detail::throw_out_of_range(size_, other.size_);
            here const at(*this), there(other);
            at.memory_or_throw();
            there.memory_or_throw();
            if (!at || !there) continue;
            auto const done =
                detail::copy_block(from.from->store, from.where, to.from->store, to.where, size_ * sizeof(T));
            if (done) return;
            if (!alive()) detail::throw_stale(raw());
            if (!other.alive()) detail::throw_stale(other.raw());
            detail::throw_copy_error(done.error(), "copy", from.from->store, to.from->store);
        }
    }

    /// Moves the buffer to another store, where this and all other copies name it from then on. On failure it is
    /// where it was, whole. No thread may use the buffer meanwhile. Throws stale_handle, object_pinned,
    /// not_restorable, batch_ended, limit_exceeded, memory_full, what the stores report.
    void move_to(any_store const& store) const {
        auto& r = present().from->registry;
        detail::move_buffer_to(r, raw(), store, detail::buffer_alignment<T>);
    }

    /// Returns the stores that the buffer is in. Throws stale_handle.
    std::vector<any_store> stores() const { return {checked().from->store}; }

    /// Returns the store's own name for the buffer. Throws stale_handle.
    tenure::block block() const { return present().where; }

    /// Gives the buffer to its durable store under `name`, so that it outlives the batch and, once synced, the
    /// process: see batch_scope::open_buffer. The buffer can be used until the batch ends. Throws stale_handle,
    /// not_durable, not_restorable, batch_ended, what the store reports.
    void persist(std::string_view name) const {
        if (alive()) present();
        detail::persist_buffer(raw(), name);
    }

    /// Returns once what persist() kept is on stable storage. For many buffers: tenure::sync. Throws as persist().
    void sync() const {
        for (;;) {
            present();
            here const at(*this);
            at.memory_or_throw();
            if (at) return must(record().from->store.try_sync({&record().where, 1}), "sync");
        }
    }

    friend bool operator==(buffer const&, buffer const&) noexcept  = default;
    friend auto operator<=>(buffer const&, buffer const&) noexcept = default;

private:
    friend detail::handle_access;
    friend std::hash<buffer>;

    /// Tells whether the bytes are here. If they are, they stay while this object lives, even if the batch is
    /// cancelled.
    class here {
    public:
        explicit here(buffer const& b) noexcept : access_(b.record_), is_(access_ && b.record().is_here()) {}
        explicit operator bool() const noexcept { return is_; }

        /// Throws std::bad_alloc if memory ran out. Otherwise bytes that are not here are worth another look.
        void memory_or_throw() const {
            if (!access_) raise(std::bad_alloc());
        }

    private:
        detail::buffer_access access_;
        bool                  is_;
    };

    detail::raw_handle raw() const noexcept { return {record_, word_}; }

    detail::buffer_record const& record() const noexcept { return *record_; }
    errc                         refusal() const {
        return record_ && alive() ? detail::refusal_of(record().from->registry, raw())
                                                          : detail::stale_because(raw());
    }
    detail::buffer_record const& checked() const {
        if (errc const why = refusal(); why != errc{}) [[unlikely]]
            detail::throw_refused(raw(), why);
        return *record_;
    }
    /// Brings evicted bytes back, and returns the record. Every call that needs the bytes uses it.
    detail::buffer_record const& present() const {
        if (!checked().is_here()) [[unlikely]]
            detail::bring_back(raw());
        return *record_;
    }
    /// Returns whether an ordinary access is allowed: alive, within range, bytes here, time not up.
    bool ready(std::size_t offset, std::size_t n) const noexcept {
        return alive() && detail::is_within(offset, n, size_) && record().is_here() &&
               detail::is_surely_in_time(record().from->registry, raw());
    }
    result<void> refused(std::size_t offset, std::size_t n) const {
        if (errc const why = refusal(); why != errc{}) return make_error_code(why);
        if (!detail::is_within(offset, n, size_)) return make_error_code(errc::out_of_range);
        return {};
    }
    void prepare(std::size_t offset, std::size_t n, char const* call) const {
        must(refused(offset, n), call);
        present();
    }
    result<void> read_here(std::size_t offset, std::span<T> out) const {
        return record().from->store.read(record().where, offset * sizeof(T), std::as_writable_bytes(out));
    }
    result<void> write_here(std::size_t offset, std::span<T const> in) const {
        return record().from->store.write(record().where, offset * sizeof(T), std::as_bytes(in));
    }
    [[noreturn]] void fail(std::error_code why, char const* call) const {
        if (!alive()) detail::throw_stale(raw());
        detail::throw_store_error(why, call, record().from->store);
    }
    void must(result<void> const& done, char const* call) const {
        if (!done) fail(done.error(), call);
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
    return handle_access::make_buffer<buffer<T>>(make_buffer_in(l, bytes, buffer_alignment<T>, store), n);
}

template <class T>
buffer<T> open_buffer_as(lane& l, std::string_view name, any_store const& store) {
    std::size_t      bytes = 0;
    raw_handle const h     = open_buffer_in(l, name, store, sizeof(T), bytes);
    return handle_access::make_buffer<buffer<T>>(h, bytes / sizeof(T));
}

}  // namespace detail

/// As buffer::sync for each, in one call of each store.
template <detail::handle_range R>
    requires detail::is_buffer_handle<std::iter_value_t<decltype(std::begin(std::declval<R const&>()))>>
void sync(R const& buffers) {
    std::vector<any_store>     stores;
    std::vector<tenure::block> blocks;
    for (auto const& b : buffers) {
        any_store const in = b.stores().front();
        if (std::find(stores.begin(), stores.end(), in) == stores.end()) stores.push_back(in);
    }
    for (any_store& in : stores) {
        blocks.clear();
        for (auto const& b : buffers)
            if (b.stores().front() == in) blocks.push_back(b.block());
        if (auto const done = in.try_sync(blocks); !done) detail::throw_store_error(done.error(), "sync", in);
    }
}

}  // namespace tenure

template <class T>
struct std::hash<tenure::buffer<T>> {
    std::size_t operator()(tenure::buffer<T> const& b) const noexcept {
        return std::hash<std::uint64_t>{}(reinterpret_cast<std::uintptr_t>(b.record_) ^ b.word_ << 7);
    }
};

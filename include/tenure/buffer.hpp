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

/// Runs f; what of tenure's own it throws is the result.
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

/// What a store is asked for: never less than malloc gives.
template <class T>
inline constexpr std::size_t buffer_alignment = alignof(T) < 16 ? 16 : alignof(T);

}  // namespace detail

/// Refers to an array of T in a store, without owning it: its batch does, as with a handle. 24 bytes, trivially
/// copyable. A buffer that was freed is stale, for ever: every call says stale_handle. Any thread may use any copy;
/// on one buffer only reads may overlap, and nobody may free it meanwhile: borrow() it where another thread might.
/// Offsets and sizes count elements.
///
/// One that was evicted (tenure/derived.hpp) is made again by whatever needs its bytes, or says errc::evicted.
///
/// Errors of the store are thrown with its name; the try_ forms return them. Whatever fails, the buffer stays where
/// it was; how much of a write was done when the medium failed in the middle is the store's to say.
template <class T>
class buffer {
    static_assert(std::is_trivially_copyable_v<T>, "a buffer's elements are copied as bytes");
    static_assert(!std::is_const_v<T>, "a buffer of constants could never be written");

public:
    using element_type = T;

    buffer() noexcept = default;  ///< null: stale from the start

    std::size_t size() const noexcept { return size_; }
    bool        alive() const noexcept { return detail::is_alive(raw()); }

    /// The batch that would free it. Throws stale_handle.
    batch_id owner() const { return detail::owner_id(raw()); }

    /// Copies out.size() elements from `offset` on. Throws stale_handle, out_of_range, and what the store says.
    void read(std::size_t offset, std::span<T> out) const {
        for (;;) {
            if (!ready(offset, out.size())) [[unlikely]]
                prepare(offset, out.size(), "read from");
            here const at(*this);
            if (at) return must(read_here(offset, out), "read from");
            at.memory_or_throw();
        }
    }
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

    result<void> try_read(std::size_t offset, std::span<T> out) const {
        if (!ready(offset, out.size())) [[unlikely]]
            if (auto const why = refused(offset, out.size()); !why) return why;
        if (here const at(*this); at) return read_here(offset, out);
        return detail::as_result([&] { read(offset, out); });
    }
    result<void> try_write(std::size_t offset, std::span<T const> in) const {
        if (!ready(offset, in.size())) [[unlikely]]
            if (auto const why = refused(offset, in.size()); !why) return why;
        if (here const at(*this); at) return write_here(offset, in);
        return detail::as_result([&] { write(offset, in); });
    }

    /// All of it, as memory of this process; unchecked like any span once the buffer is freed or moved. Throws
    /// stale_handle, not_addressable.
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

    /// Copies all of it to the beginning of another one, which may be in another store; within one that can, the
    /// bytes do not pass through this process. Throws stale_handle, out_of_range: the other one is shorter.
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

    /// To another store: this and all other copies name it there from now on. If that fails it is where it was,
    /// whole. Nobody may use the buffer meanwhile. Throws stale_handle, object_pinned, and what the stores say.
    void move_to(any_store const& store) const {
        auto& r = present().from->registry;
        detail::move_buffer_to(r, raw(), store, detail::buffer_alignment<T>);
    }

    /// The stores that it is in.
    std::vector<any_store> stores() const { return {checked().from->store}; }

    /// The store's own name for it.
    tenure::block block() const { return present().where; }

    /// From now on it is its durable store's, under that name, and outlives the batch and, once synced, the
    /// process: see batch_scope::open_buffer. It can be used until the batch ends. Throws stale_handle,
    /// not_durable.
    void persist(std::string_view name) const {
        if (alive()) present();
        detail::persist_buffer(raw(), name);
    }

    /// On return, what persist() kept is on stable storage. Many at once: tenure::sync. Throws as persist().
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

    /// Whether the bytes are here; then they stay until this ends, even if the batch is cancelled meanwhile.
    class here {
    public:
        explicit here(buffer const& b) noexcept : access_(b.record_), is_(access_ && b.record().is_here()) {}
        explicit operator bool() const noexcept { return is_; }

        /// Else it is worth a second look. Throws std::bad_alloc.
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
    /// All that needs the bytes comes by here: what was evicted is back then.
    detail::buffer_record const& present() const {
        if (!checked().is_here()) [[unlikely]]
            detail::bring_back(raw());
        return *record_;
    }
    /// All that is asked before an ordinary access.
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

/// As sync() of each, in one call of each store. Throws as that.
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

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <tenure/store/concept.hpp>
#include <tenure/type_name.hpp>

namespace tenure {

class any_store;

namespace detail {

/// A store that is a place in a larger one, which knows its blocks by the same names and frees them.
template <class S>
concept part_of_store = requires(S const& s) {
    { s.whole() } noexcept -> std::same_as<any_store>;
};

/// The operations that any_store calls. Null: the store has none of that name.
struct store_calls {
    store_traits         traits;
    type_identity const* type;
    result<block> (*allocate)(void*, std::size_t, std::size_t);
    result<void> (*deallocate)(void*, std::span<block const>) noexcept;
    result<void> (*read)(void*, block, std::size_t, std::span<std::byte>);
    result<void> (*write)(void*, block, std::size_t, std::span<std::byte const>);
    store_usage (*usage)(void const*) noexcept;
    std::string (*describe)(void const*);
    result<std::byte*> (*address)(void*, block);
    result<void> (*keep)(void*, block, std::string_view);
    result<block> (*find)(void*, std::string_view);
    result<void> (*sync)(void*, std::span<block const>);
    result<void> (*close)(void*);
    result<void> (*copy)(void*, block, std::size_t, block, std::size_t, std::size_t);
    result<block> (*allocate_in)(void*, std::uint64_t, std::size_t, std::size_t);
    result<void> (*transfer)(void*, std::span<block const>, std::uint64_t);
    result<void> (*deallocate_batch)(void*, std::uint64_t, std::span<block const>) noexcept;
    any_store (*whole)(void const*) noexcept;
};

template <class S>
constexpr store_calls make_store_calls() noexcept {
    store_calls c{};
    c.traits     = S::traits;
    c.type       = &identity_of<S>();
    c.allocate   = [](void* s, std::size_t n, std::size_t a) { return static_cast<S*>(s)->allocate(n, a); };
    c.deallocate = [](void* s, std::span<block const> many) noexcept {
        return static_cast<S*>(s)->deallocate(many);
    };
    c.read = [](void* s, block b, std::size_t at, std::span<std::byte> out) {
        return static_cast<S*>(s)->read(b, at, out);
    };
    c.write = [](void* s, block b, std::size_t at, std::span<std::byte const> in) {
        return static_cast<S*>(s)->write(b, at, in);
    };
    c.usage    = [](void const* s) noexcept { return static_cast<S const*>(s)->usage(); };
    c.describe = [](void const* s) -> std::string {
        if constexpr (described<S>) return static_cast<S const*>(s)->describe();
        else return type_name(identity_of<S>());
    };
    if constexpr (S::traits.addressable)
        c.address = [](void* s, block b) { return static_cast<S*>(s)->address(b); };
    if constexpr (S::traits.durable) {
        c.keep  = [](void* s, block b, std::string_view name) { return static_cast<S*>(s)->keep(b, name); };
        c.find  = [](void* s, std::string_view name) { return static_cast<S*>(s)->find(name); };
        c.sync  = [](void* s, std::span<block const> many) { return static_cast<S*>(s)->sync(many); };
        c.close = [](void* s) { return static_cast<S*>(s)->close(); };
    }
    if constexpr (S::traits.copyable)
        c.copy = [](void* s, block from, std::size_t i, block to, std::size_t k, std::size_t n) {
            return static_cast<S*>(s)->copy(from, i, to, k, n);
        };
    if constexpr (S::traits.batched) {
        c.allocate_in = [](void* s, std::uint64_t batch, std::size_t n, std::size_t a) {
            return static_cast<S*>(s)->allocate_in(batch, n, a);
        };
        c.transfer = [](void* s, std::span<block const> many, std::uint64_t batch) {
            return static_cast<S*>(s)->transfer(many, batch);
        };
        c.deallocate_batch = [](void* s, std::uint64_t batch, std::span<block const> many) noexcept {
            return static_cast<S*>(s)->deallocate_batch(batch, many);
        };
    }
    if constexpr (part_of_store<S>)
        c.whole = [](void const* s) noexcept { return static_cast<S const*>(s)->whole(); };
    return c;
}

template <class S>
inline constexpr store_calls calls_of = make_store_calls<S>();

}  // namespace detail

/// Any store, shared: the store lives as long as one of its any_stores. Copies name the same store and compare
/// equal. As thread-safe as the store. A call costs an indirect jump beyond the store's own.
///
/// As a backing_store it has no capabilities, since those are constants of a type. The try_ calls use those of the
/// store inside, and return not_addressable, not_durable or not_copyable if it lacks them. If it does not know
/// batches, all its blocks are in none.
class any_store {
public:
    static constexpr store_traits traits{};

    any_store() noexcept = default;  ///< names no store; only operator bool, == and get_if() may be called

    /// Shares `s`, which must not be null.
    template <class S>
        requires(!std::is_same_v<S, any_store>)
    any_store(std::shared_ptr<S> s) noexcept : store_(std::move(s)) {
        // Instantiated for complete stores alone, so that the compiler first names what others lack.
        if constexpr (backing_store<S>) calls_ = &detail::calls_of<S>;
        else static_assert(detail::is_whole_store<S>() && backing_store<S>, "not a store, for the reasons above");
    }

    result<block> allocate(std::size_t bytes, std::size_t alignment) {
        return calls_->allocate(store_.get(), bytes, alignment);
    }
    result<void> deallocate(std::span<block const> many) noexcept { return calls_->deallocate(store_.get(), many); }
    result<void> read(block b, std::size_t offset, std::span<std::byte> out) {
        return calls_->read(store_.get(), b, offset, out);
    }
    result<void> write(block b, std::size_t offset, std::span<std::byte const> in) {
        return calls_->write(store_.get(), b, offset, in);
    }
    store_usage usage() const noexcept { return calls_->usage(store_.get()); }
    std::string describe() const { return calls_->describe(store_.get()); }

    store_traits const& capabilities() const noexcept { return calls_->traits; }

    result<std::byte*> try_address(block b) {
        if (!calls_->address) return make_error_code(errc::not_addressable);
        return calls_->address(store_.get(), b);
    }
    result<void> try_keep(block b, std::string_view name) {
        if (!calls_->keep) return make_error_code(errc::not_durable);
        return calls_->keep(store_.get(), b, name);
    }
    result<block> try_find(std::string_view name) {
        if (!calls_->find) return make_error_code(errc::not_durable);
        return calls_->find(store_.get(), name);
    }
    result<void> try_sync(std::span<block const> many) {
        if (!calls_->sync) return make_error_code(errc::not_durable);
        return calls_->sync(store_.get(), many);
    }
    result<void> try_close() {
        if (!calls_->close) return make_error_code(errc::not_durable);
        return calls_->close(store_.get());
    }
    result<void> try_copy(block from, std::size_t from_offset, block to, std::size_t to_offset, std::size_t bytes) {
        if (!calls_->copy) return make_error_code(errc::not_copyable);
        return calls_->copy(store_.get(), from, from_offset, to, to_offset, bytes);
    }
    result<block> try_allocate_in(std::uint64_t batch, std::size_t bytes, std::size_t alignment) {
        if (!calls_->allocate_in) return allocate(bytes, alignment);
        return calls_->allocate_in(store_.get(), batch, bytes, alignment);
    }
    result<void> try_transfer(std::span<block const> many, std::uint64_t batch) {
        if (!calls_->transfer) return {};
        return calls_->transfer(store_.get(), many, batch);
    }
    result<void> try_deallocate_batch(std::uint64_t batch, std::span<block const> many) noexcept {
        if (!calls_->deallocate_batch) return deallocate(many);
        return calls_->deallocate_batch(store_.get(), batch, many);
    }

    /// Returns the store that this one is a place in, by whose name blocks are freed; this one, if it is none.
    any_store whole() const noexcept { return is_place() ? calls_->whole(store_.get()) : *this; }

    /// Returns whether this is a place in another store, whole().
    bool is_place() const noexcept { return calls_ && calls_->whole; }

    /// Returns the store itself if it is an S, else null.
    template <class S>
    S* get_if() const noexcept {
        return calls_ && *calls_->type == detail::identity_of<S>() ? static_cast<S*>(store_.get()) : nullptr;
    }

    explicit    operator bool() const noexcept { return store_ != nullptr; }
    friend bool operator==(any_store const& a, any_store const& b) noexcept { return a.store_ == b.store_; }

private:
    friend std::hash<any_store>;

    std::shared_ptr<void>      store_;
    detail::store_calls const* calls_ = nullptr;
};

static_assert(backing_store<any_store>);

}  // namespace tenure

template <>
struct std::hash<tenure::any_store> {
    std::size_t operator()(tenure::any_store const& s) const noexcept {
        return std::hash<std::shared_ptr<void>>{}(s.store_);
    }
};

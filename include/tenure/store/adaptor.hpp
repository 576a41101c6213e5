// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <tenure/store/any_store.hpp>
#include <tenure/store/concept.hpp>
#include <tenure/type_name.hpp>

namespace tenure {

/// The calls of a store; `any` stands for all of them together.
enum class store_operation { any, allocate, deallocate, read, write, address, keep, find, sync, close, copy };

namespace detail {

/// Returns what messages call a store.
template <class S>
std::string name_of(S const& s) {
    if constexpr (described<S>) return s.describe();
    else return type_name(identity_of<S>());
}

/// Clears the flags of operations that an adaptor does not pass on: asynchronous and batched ones would bypass a
/// derived class that hides the others.
constexpr store_traits waited_for(store_traits t) noexcept {
    t.asynchronous = false;
    t.batched      = false;
    return t;
}

/// The operations of an adaptor, each of which passes the upstream's on as Self says: by `whole(operation, call)`,
/// or, if a medium can give up half-way, by `part(operation, size, has_parts, call)`, where call(n) does the first
/// n of `size` bytes or blocks. The upstream refuses as a whole what does not have parts.
template <backing_store Upstream, class Self>
class passing_store {
    using op = store_operation;
    friend Self;

    explicit passing_store(std::shared_ptr<Upstream> upstream) noexcept : upstream_(std::move(upstream)) {}
    passing_store(passing_store const&)            = delete;
    passing_store& operator=(passing_store const&) = delete;

public:
    static constexpr store_traits traits = waited_for(Upstream::traits);

    result<block> allocate(std::size_t bytes, std::size_t alignment) {
        return self().whole(op::allocate, [&] { return upstream_->allocate(bytes, alignment); });
    }
    result<void> deallocate(std::span<block const> many) noexcept {
        auto const call = [&](std::size_t n) { return upstream_->deallocate(many.first(n)); };
        return self().part(op::deallocate, many.size(), true, call);
    }
    result<void> read(block b, std::size_t offset, std::span<std::byte> out) {
        auto const call = [&](std::size_t n) { return upstream_->read(b, offset, out.first(n)); };
        return self().part(op::read, out.size(), inside(b, offset, out.size()), call);
    }
    result<void> write(block b, std::size_t offset, std::span<std::byte const> in) {
        auto const call = [&](std::size_t n) { return upstream_->write(b, offset, in.first(n)); };
        return self().part(op::write, in.size(), inside(b, offset, in.size()), call);
    }
    store_usage usage() const noexcept { return upstream_->usage(); }

    result<std::byte*> address(block b)
        requires(traits.addressable)
    {
        return self().whole(op::address, [&] { return upstream_->address(b); });
    }
    result<void> keep(block b, std::string_view name)
        requires(traits.durable)
    {
        return self().whole(op::keep, [&] { return upstream_->keep(b, name); });
    }
    result<block> find(std::string_view name)
        requires(traits.durable)
    {
        return self().whole(op::find, [&] { return upstream_->find(name); });
    }
    result<void> sync(std::span<block const> many)
        requires(traits.durable)
    {
        auto const call = [&](std::size_t n) { return upstream_->sync(many.first(n)); };
        return self().part(op::sync, many.size(), true, call);
    }
    result<void> close()
        requires(traits.durable)
    {
        return self().whole(op::close, [&] { return upstream_->close(); });
    }
    result<void> copy(block from, std::size_t from_offset, block to, std::size_t to_offset, std::size_t bytes)
        requires(traits.copyable)
    {
        auto const call = [&](std::size_t n) { return upstream_->copy(from, from_offset, to, to_offset, n); };
        return self().part(op::copy, bytes, inside(from, from_offset, bytes) && inside(to, to_offset, bytes), call);
    }

    /// Returns the store underneath. Calls made there directly bypass the adaptor.
    std::shared_ptr<Upstream> const& upstream() const noexcept { return upstream_; }

private:
    Self& self() noexcept { return static_cast<Self&>(*this); }

    static bool inside(block b, std::size_t offset, std::size_t size) noexcept {
        return offset <= b.bytes && size <= b.bytes - offset;
    }

    std::shared_ptr<Upstream> upstream_;
};

}  // namespace detail

/// A store that passes every call on to an upstream: derive from it and hide what is to differ. It shares the
/// upstream, which so outlives its blocks. Block names and capabilities are the upstream's, except `asynchronous`
/// and `batched`.
///
/// As thread-safe as the upstream. A call costs nothing beyond the upstream's own.
template <backing_store Upstream>
class store_adaptor : public detail::passing_store<Upstream, store_adaptor<Upstream>> {
    friend detail::passing_store<Upstream, store_adaptor>;

public:
    /// Makes an adaptor of `upstream`, which must not be null.
    explicit store_adaptor(std::shared_ptr<Upstream> upstream) noexcept
        : store_adaptor::passing_store(std::move(upstream)) {}

    std::string describe() const { return detail::name_of(*this->upstream()); }

private:
    template <class F>
    static auto whole(store_operation, F call) {
        return call();
    }
    template <class F>
    static result<void> part(store_operation, std::size_t size, bool, F call) {
        return call(size);
    }
};

static_assert(backing_store<store_adaptor<any_store>>);

}  // namespace tenure

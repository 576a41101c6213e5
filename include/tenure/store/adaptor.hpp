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

namespace detail {

/// What a store is called in messages.
template <class S>
std::string name_of(S const& s) {
    if constexpr (described<S>) return s.describe();
    else return type_name(identity_of<S>());
}

/// The operations of asynchronous and batched stores go past whoever hides the others: so they are not passed on.
constexpr store_traits waited_for(store_traits t) noexcept {
    t.asynchronous = false;
    t.batched      = false;
    return t;
}

}  // namespace detail

/// A store over a store that passes every call on: derive from it and hide what is to be different. It shares the
/// upstream, which so outlives its blocks, and has its block names and its capabilities, except
/// `asynchronous` and `batched`.
///
/// As thread-safe as the upstream. A call costs nothing more than the upstream's own.
template <backing_store Upstream>
class store_adaptor {
public:
    static constexpr store_traits traits = detail::waited_for(Upstream::traits);

    /// `upstream` must not be null.
    explicit store_adaptor(std::shared_ptr<Upstream> upstream) noexcept : upstream_(std::move(upstream)) {}
    store_adaptor(store_adaptor const&)            = delete;
    store_adaptor& operator=(store_adaptor const&) = delete;

    result<block> allocate(std::size_t bytes, std::size_t alignment) {
        return upstream_->allocate(bytes, alignment);
    }
    result<void> deallocate(std::span<block const> many) noexcept { return upstream_->deallocate(many); }
    result<void> read(block b, std::size_t offset, std::span<std::byte> out) {
        return upstream_->read(b, offset, out);
    }
    result<void> write(block b, std::size_t offset, std::span<std::byte const> in) {
        return upstream_->write(b, offset, in);
    }
    store_usage usage() const noexcept { return upstream_->usage(); }
    std::string describe() const { return detail::name_of(*upstream_); }

    result<std::byte*> address(block b)
        requires(traits.addressable)
    {
        return upstream_->address(b);
    }
    result<void> keep(block b, std::string_view name)
        requires(traits.durable)
    {
        return upstream_->keep(b, name);
    }
    result<block> find(std::string_view name)
        requires(traits.durable)
    {
        return upstream_->find(name);
    }
    result<void> sync(std::span<block const> many)
        requires(traits.durable)
    {
        return upstream_->sync(many);
    }
    result<void> close()
        requires(traits.durable)
    {
        return upstream_->close();
    }
    result<void> copy(block from, std::size_t from_offset, block to, std::size_t to_offset, std::size_t bytes)
        requires(traits.copyable)
    {
        return upstream_->copy(from, from_offset, to, to_offset, bytes);
    }

    /// The store underneath. What is done there directly goes past the adaptor.
    std::shared_ptr<Upstream> const& upstream() const noexcept { return upstream_; }

private:
    std::shared_ptr<Upstream> upstream_;
};

static_assert(backing_store<store_adaptor<any_store>>);

}  // namespace tenure

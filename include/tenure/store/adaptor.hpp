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

}  // namespace detail

/// A store that passes every call on to an upstream: derive from it and hide what is to differ. It shares the
/// upstream, which so outlives its blocks. Block names and capabilities are the upstream's, except `asynchronous`
/// and `batched`.
///
/// As thread-safe as the upstream. A call costs nothing beyond the upstream's own.
template <backing_store Upstream>
class store_adaptor {
public:
    static constexpr store_traits traits = detail::waited_for(Upstream::traits);

    /// Makes an adaptor of `upstream`, which must not be null.
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

    /// Returns the store underneath. Calls made there directly bypass the adaptor.
    std::shared_ptr<Upstream> const& upstream() const noexcept { return upstream_; }

private:
    std::shared_ptr<Upstream> upstream_;
};

static_assert(backing_store<store_adaptor<any_store>>);

}  // namespace tenure

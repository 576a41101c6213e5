// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <concepts>
#include <cstddef>
#include <source_location>
#include <string>
#include <utility>

#include <tenure/batch.hpp>
#include <tenure/detail/life/public_calls.hpp>
#include <tenure/handle.hpp>
#include <tenure/lane.hpp>

namespace tenure {

class registry;

/// Owns a batch without a guard, and ends it when destroyed: for batches that are opened in one place and ended in
/// another, on any thread. So for coroutines, where a batch_scope must not live across co_await. Movable. One
/// thread at a time may use an owner; its batch is like others, and others may end it too.
///
/// An owner does not make its batch current: enter() does, between two suspensions, and bind_batch, for everything
/// that runs through an executor.
class [[nodiscard]] batch_owner {
    using source = std::source_location;

public:
    /// Owns no batch.
    batch_owner() noexcept = default;

    /// Opens a batch below this thread's current one, else below the root of registry::global(). Throws
    /// std::bad_alloc, batch_ended.
    explicit batch_owner(batch_options const& options, source where = source::current())
        : id_(open(options, where)) {}

    /// Opens a batch of registry `in` below `parent`, or below the registry's root. Throws as registry::new_batch.
    explicit batch_owner(registry& in, batch_options const& options = {}, batch_id parent = {},
                         source where = source::current());

    /// Takes over a batch without a guard: an id from detach(), release() or registry::new_batch. Throws
    /// no_such_batch.
    explicit batch_owner(batch_id id);

    batch_owner(batch_owner&& other) noexcept : id_(std::exchange(other.id_, {})) {}
    batch_owner& operator=(batch_owner&& other) noexcept {
        batch_owner{std::move(other)}.swap(*this);
        return *this;
    }
    ~batch_owner();
    void swap(batch_owner& other) noexcept { std::swap(id_, other.id_); }

    /// Ends the batch now, as registry::end_with_report, and owns none from then on. If it is over, the report
    /// says nothing new.
    batch_report end() noexcept;

    /// Gives up the batch and returns its id. The batch ends by that id or, unless it was detached, with its
    /// parent.
    batch_id release() noexcept { return std::exchange(id_, {}); }

    batch_id id() const noexcept { return id_; }
    operator batch_id() const noexcept { return id_; }  ///< for calls that take an id
    explicit operator bool() const noexcept { return static_cast<bool>(id_); }

    /// As batch_scope::cancel.
    template <class Feature = detail::timing_calls>
    void cancel() noexcept {
        detail::require_timing<Feature>();
        Feature::cancel(id_);
    }
    template <class Feature = detail::timing_calls>
    auto stop_token() const {
        detail::require_timing<Feature>();
        return Feature::stop_token(id_);
    }

    /// Returns `done` if there is no batch.
    batch_status status() const noexcept;

    /// As batch_scope::enter: makes the batch current on this thread while the guard lives. The guard must not
    /// live across co_await. Throws std::bad_alloc, batch_ended.
    [[nodiscard]] entered enter() const;

    /// As batch_scope::make, on any thread. Cost: that of enter(), which is cheaper for several objects.
    template <class T, class... Args>
    handle<T> make(Args&&... args) {
        lane in(enter_alone("make in batch "));
        return in.make<T>(std::forward<Args>(args)...);
    }
    template <class T>
    handle<T> make(detail::elements_of<T> list) {
        lane in(enter_alone("make in batch "));
        return in.make<T>(list);
    }
    template <class T, std::convertible_to<std::size_t>... N>
    handle<T> make_for_overwrite(N... n) {
        lane in(enter_alone("make in batch "));
        return in.make_for_overwrite<T>(n...);
    }
    template <class T>
    buffer<T> make_buffer(std::size_t n, any_store const& store = {}) {
        lane in(enter_alone("make a buffer in batch "));
        return in.make_buffer<T>(n, store);
    }
    template <detail::element_range R>
    buffer<detail::element_of<R>> make_buffer(R&& elements, any_store const& store = {}) {
        lane in(enter_alone("make a buffer in batch "));
        return in.make_buffer(elements, store);
    }

    /// As batch_scope::keep, on any thread. Throws as registry::transfer_ownership.
    template <detail::owned H>
    H keep(H h) {
        keep_from_it(detail::handle_access::raw(h));
        return h;
    }

private:
    static batch_id open(batch_options const& options, source where);

    detail::batch_record& held(char const* call) const;
    detail::lane*         enter_alone(char const* call) const;
    void                  keep_from_it(detail::raw_handle h) const;

    batch_id id_;
};

}  // namespace tenure

#ifndef TENURE_SEPARATE
#include <tenure/impl/batch_owner.ipp>
#endif

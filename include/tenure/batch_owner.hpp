// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <cstddef>
#include <source_location>
#include <stop_token>
#include <string>
#include <utility>

#include <tenure/batch.hpp>
#include <tenure/batch_scope.hpp>
#include <tenure/detail/life/reporting.hpp>
#include <tenure/detail/life/visiting.hpp>
#include <tenure/error.hpp>
#include <tenure/registry.hpp>

namespace tenure {

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
                         source where = source::current())
        : id_(in.new_batch(options, parent, where)) {}

    /// Takes over a batch without a guard: an id from detach(), release() or registry::new_batch. Throws
    /// no_such_batch.
    explicit batch_owner(batch_id id) : id_(id) {
        if (!detail::is_known(id.value))
            raise(error(errc::no_such_batch, "own batch #" + std::to_string(id.value)));
    }

    batch_owner(batch_owner&& other) noexcept : id_(std::exchange(other.id_, {})) {}
    batch_owner& operator=(batch_owner&& other) noexcept {
        batch_owner{std::move(other)}.swap(*this);
        return *this;
    }
    ~batch_owner() {
        if (auto* const b = detail::find_anywhere(id_.value)) detail::end_record(*b, id_.value, false);
    }
    void swap(batch_owner& other) noexcept { std::swap(id_, other.id_); }

    /// Ends the batch now, as registry::end_with_report, and owns none from then on. If it is over, the report
    /// says nothing new.
    batch_report end() noexcept {
        batch_id const id = release();
        auto* const    b  = detail::find_anywhere(id.value);
        return b ? detail::end_by_id(*b, id.value) : batch_report{};
    }

    /// Gives up the batch and returns its id. The batch ends by that id or, unless it was detached, with its
    /// parent.
    batch_id release() noexcept { return std::exchange(id_, {}); }

    batch_id id() const noexcept { return id_; }
    explicit operator bool() const noexcept { return static_cast<bool>(id_); }

    /// As batch_scope::cancel.
    void cancel() noexcept {
        if (auto* const b = detail::find_anywhere(id_.value)) detail::stop_batch(*b, id_.value, errc::cancelled);
    }
    /// As batch_scope::stop_token. Without a batch, the token has been asked to stop.
    std::stop_token stop_token() const {
        auto* const b = detail::find_anywhere(id_.value);
        return detail::stop_token_of(b ? *b : detail::over_record_of(), id_.value);
    }

    /// Returns `done` if there is no batch.
    batch_status status() const noexcept {
        auto* const b = detail::find_anywhere(id_.value);
        return detail::status_of(b ? *b : detail::over_record_of(), id_.value);
    }

    /// As batch_scope::enter: makes the batch current on this thread while the guard lives. The guard must not
    /// live across co_await. Throws std::bad_alloc, batch_ended.
    [[nodiscard]] entered enter() const {
        auto* const b = detail::find_anywhere(id_.value);
        if (b) detail::look_at_the_clock(*b, id_.value);
        if (b && detail::visit_primary(*b, id_.value)) return entered(&b->primary);
        return entered(detail::enter_held(held("enter batch ")));
    }

    /// As batch_scope::make, on any thread. Cost: that of enter(), which is cheaper for several objects.
    template <class T, class... Args>
    handle<T> make(Args&&... args) {
        lane in(detail::enter_held(held("make in batch "), true));
        return in.make<T>(std::forward<Args>(args)...);
    }
    /// As batch_scope::make_buffer, on any thread. Cost: that of enter().
    template <class T>
    buffer<T> make_buffer(std::size_t n, any_store const& store = {}) {
        lane in(detail::enter_held(held("make a buffer in batch "), true));
        return in.make_buffer<T>(n, store);
    }

    /// As batch_scope::keep, on any thread. Throws as registry::transfer_ownership.
    template <detail::owned H>
    H keep(H h) {
        auto& b = held("keep from batch ");
        struct guard {
            detail::batch_record& b;
            ~guard() { detail::release_hold(&b); }
        } const undo{b};
        if (auto const why = detail::keep_from(b, detail::handle_access::raw(h)))
            detail::throw_failure(why, "keep from batch ");
        return h;
    }

private:
    static batch_id open(batch_options const& options, source where) {
        detail::lane const* const current = detail::this_thread.current;
        if (auto* const end = detail::this_thread.ending; end && end->is_current())
            return {end->open(&options, false, where).id};
        if (!current) return registry::global().new_batch(options, {}, where);
        auto* const r = current->batch->registry.load(std::memory_order_relaxed);
        if (!r) raise(error(current->batch->why_closed(), "open a batch below one that is over"));
        detail::mind_the_clock(*current->batch);
        return {detail::open_batch(*r, current->batch, &options, false, where).id};
    }

    /// Returns the batch, which the caller holds from then on. Throws batch_ended.
    detail::batch_record& held(char const* call) const {
        auto* const b = detail::find_anywhere(id_.value);
        if (!b || !detail::hold(*b, id_.value))
            raise(error(detail::over_because(b, id_.value), call + detail::label_of(id_.value)));
        return *b;
    }

    batch_id id_;
};

}  // namespace tenure

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <memory_resource>
#include <source_location>
#include <stop_token>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tenure/batch.hpp>
#include <tenure/buffer.hpp>
#include <tenure/detail/calls.hpp>
#include <tenure/detail/objects.hpp>
#include <tenure/handle.hpp>
#include <tenure/lane.hpp>
#include <tenure/registry.hpp>

namespace tenure {

/// The guard of a batch: opens it, makes it current on this thread, ends it at the closing brace. Like
/// std::lock_guard it belongs to the thread and the block that opened it. Its calls are that thread's, but for
/// enter(), lane(), id(), name(), status() and usage().
///
/// The end frees all that the batch owns, newest first: what was not kept, transferred or freed before. It never
/// throws, never allocates, and touches no object that has no destructor. Open batches below it end first.
class [[nodiscard]] batch_scope {
    using source = std::source_location;

public:
    /// Below this thread's current batch, else below the root of registry::global(). Throws std::bad_alloc,
    /// batch_ended.
    batch_scope(source where = source::current())  // NOLINT(google-explicit-constructor): it is the default one
        : batch_scope(nullptr, nullptr, nullptr, where) {}
    explicit batch_scope(batch_options const& options, source where = source::current())
        : batch_scope(nullptr, nullptr, &options, where) {}

    /// Below the current batch if that is this registry's, else below the registry's root.
    explicit batch_scope(registry& in, source where = source::current())
        : batch_scope(in.core_, nullptr, nullptr, where) {}
    batch_scope(registry& in, batch_options const& options, source where = source::current())
        : batch_scope(in.core_, nullptr, &options, where) {}

    /// Below `parent`, which may be another thread's.
    explicit batch_scope(batch_scope& parent, source where = source::current())
        : batch_scope(parent.core(), parent.batch_, nullptr, where) {}
    batch_scope(batch_scope& parent, batch_options const& options, source where = source::current())
        : batch_scope(parent.core(), parent.batch_, &options, where) {}

    batch_scope(batch_scope const&)            = delete;
    batch_scope& operator=(batch_scope const&) = delete;

    ~batch_scope() {
        if (batch_ != &detail::nobody) detail::close_guard(*batch_, id_);
    }

    /// Makes a T, or with make<T[]>(n) n value-initialised elements, at an address that never changes. What T's
    /// constructor throws passes, and nothing is registered. Throws batch_ended, limit_exceeded, memory_full.
    /// Cost: a bump of a pointer; more than 64 KiB, a lock and a run of its own.
    template <class T, class... Args>
    [[gnu::always_inline]] handle<T> make(Args&&... args) {
        return detail::make_in<T>(here(), std::forward<Args>(args)...);
    }

    /// As make, with an error_code in place of tenure's own exceptions.
    template <class T, class... Args>
    result<handle<T>> try_make(Args&&... args) {
        return detail::try_make_in<T>(here(), std::forward<Args>(args)...);
    }

    /// Makes an array of `n` T in a store, by default the batch's own (batch_options::store); contents are
    /// unspecified. Its bytes count towards the batch's limits. Throws as make, and what the store says. Cost: that
    /// of allocate(), and some 50 ns.
    template <class T>
    buffer<T> make_buffer(std::size_t n, any_store const& store = {}) {
        return detail::make_buffer_in<T>(here(), n, store);
    }
    template <class T>
    result<buffer<T>> try_make_buffer(std::size_t n, any_store const& store = {}) {
        return detail::as_result([&] { return detail::make_buffer_in<T>(here(), n, store); });
    }

    /// What buffer::persist() kept in a durable store, under that name. It stays the store's: the end of the batch
    /// ends this way to it only. Throws as make, and no_such_block, not_durable, out_of_range: its size is no
    /// multiple of T's.
    template <class T>
    buffer<T> open_buffer(std::string_view name, any_store const& store = {}) {
        return detail::open_buffer_as<T>(here(), name, store);
    }

    /// Registers something made elsewhere: at its end, `deleter(p)` is called. On failure the caller keeps it.
    /// Access through the handle costs a little more than to what make() made. Throws as make, and bad_address.
    template <class T, class Deleter = std::default_delete<T>>
    handle<T> adopt(T* p, Deleter deleter = {});
    template <class T, class Deleter>
    handle<T> adopt(std::unique_ptr<T, Deleter>&& p) {
        handle<T> const h = adopt(p.get(), p.get_deleter());
        p.release();
        return h;
    }

    /// Calls `f()` at the end, in the order of destructors; it must not throw. Throws as make.
    template <class F>
    void defer(F f) {
        make<detail::deferred<F>>(std::move(f));
    }

    /// To the parent. Returns what it was given. What the parent or one above it already owns stays there. Throws
    /// stale_handle, not_owner, batch_ended, limit_exceeded, memory_full, wrong_thread (one of more than 64 KiB
    /// with a destructor, which a lane made that another thread has open); then nothing was kept.
    template <detail::owned H>
    H keep(H h) {
        if (!detail::keep_quickly(*batch_, detail::handle_access::raw(h))) require(try_keep_each(h));
        return h;
    }
    template <detail::owned... H>
        requires(sizeof...(H) > 1)
    std::tuple<H...> keep(H... h) {
        require(try_keep_each(h...));
        return {h...};
    }
    template <detail::handle_range R>
    R&& keep(R&& handles) {
        require(try_keep_range(handles));
        return std::forward<R>(handles);
    }

    /// As keep, with an error_code in place of its exceptions.
    template <detail::owned H>
    result<H> try_keep(H h) {
        if (auto const why = try_keep_each(h)) return make_error_code(why.code);
        return h;
    }
    template <detail::owned... H>
        requires(sizeof...(H) > 1)
    result<std::tuple<H...>> try_keep(H... h) {
        if (auto const why = try_keep_each(h...)) return make_error_code(why.code);
        return std::tuple(h...);
    }
    template <detail::handle_range R>
    result<void> try_keep(R&& handles) {
        if (auto const why = try_keep_range(handles)) return make_error_code(why.code);
        return {};
    }

    /// Frees one object of this batch now. Throws stale_handle, not_owner, batch_ended.
    template <detail::owned H>
    void free(H h) {
        if (auto const why = free_here(detail::handle_access::raw(h))) detail::throw_failure(why, "free in batch ");
    }
    template <detail::owned H>
    result<void> try_free(H h) {
        if (auto const why = free_here(detail::handle_access::raw(h))) return make_error_code(why.code);
        return {};
    }

    /// The end, now. Then the previous batch is current again, and make in this one throws batch_ended. Once more:
    /// a no-op that reports nothing new. Throws wrong_thread.
    batch_report end();

    /// As end(), and frees also what was kept out of this batch by keep() and is still alive.
    batch_report discard();

    /// Memory for containers that live in this batch. Give back what is over 64 KiB and what was allocated last at
    /// once, the rest with the batch. This thread's only. Throws what make throws.
    std::pmr::memory_resource* resource() noexcept { return &here().resource; }

    /// For one other thread. Throws std::bad_alloc, batch_ended.
    tenure::lane lane() { return tenure::lane(enter_as(true)); }

    /// Makes the batch current on the calling thread while the guard it returns lives. Throws std::bad_alloc,
    /// batch_ended.
    [[nodiscard]] entered enter() { return entered(enter_as(false)); }

    /// Lets go: the batch lives until somebody ends its id, and holds its ancestors until then. Throws batch_ended,
    /// wrong_thread.
    batch_id detach();

    /// Makes no more here or in batches below, from any thread: make throws errc::cancelled, the stop_token fires,
    /// and what is not open on a thread goes at once; this batch when its guard closes. No-op if it is over. Cost:
    /// a few microseconds, and a pass over the batches of the process where there are batches below.
    void cancel() noexcept { detail::stop_batch(*batch_, id_, errc::cancelled); }

    /// Fires when the batch is cancelled, expires, or is asked to stop by the end of one above; on the thread that
    /// does it. Any thread. Throws std::bad_alloc.
    std::stop_token stop_token() const { return detail::stop_token_of(*batch_, id_); }

    batch_id     id() const noexcept { return {id_}; }
    std::string  name() const { return detail::name_of(*batch_); }
    batch_status status() const noexcept;
    batch_usage  usage() const noexcept { return detail::usage_of(*batch_); }

private:
    batch_scope(detail::registry_core* core, detail::batch_record* parent, batch_options const* options,
                source where);

    detail::batch_record*  batch() const { return batch_; }
    detail::registry_core* core() const { return batch()->registry.load(std::memory_order_relaxed); }
    detail::lane&          here() const { return batch()->primary; }
    detail::lane*          enter_as(bool exclusive) const;
    void                   require_this_thread(char const* call) const;

    detail::failure free_here(detail::raw_handle h) const {
        return core() ? detail::free_one(*core(), h, batch()) : detail::failure{errc::batch_ended, batch()};
    }
    void require(detail::failure const& why) const {
        if (why) [[unlikely]]
            detail::throw_failure(why, "keep from batch ");
    }
    template <detail::owned... H>
    detail::failure try_keep_each(H const&... h) {
        return detail::keep_all(*batch(), [&](auto f) { (f(detail::handle_access::raw(h)) && ...); });
    }
    template <class R>
    detail::failure try_keep_range(R&& handles) {
        return detail::keep_all(*batch(), [&](auto f) {
            for (auto const& h : handles)
                if (!f(detail::handle_access::raw(h))) return;
        });
    }

    detail::batch_record* batch_ = nullptr;  ///< `nobody` once detached: then all calls say batch_ended
    std::uint64_t         id_    = 0;
};

inline batch_scope::batch_scope(detail::registry_core* core, detail::batch_record* parent,
                                batch_options const* options, source where) {
    detail::close_wandered();
    if (!parent) {
        detail::lane* const current = detail::this_thread.current;
        if (current && (!core || current->batch->registry.load(std::memory_order_relaxed) == core)) {
            parent = current->batch;
            core   = parent->registry.load(std::memory_order_relaxed);
        } else {
            if (!core) core = registry::global().core_;
            parent = core->root;
        }
    } else if (!core) {
        detail::refuse_below(*parent);
    }
    batch_ = detail::open_batch(*core, parent, options, true, where);
    id_    = batch_->id.load(std::memory_order_relaxed);
}

template <class T, class Deleter>
handle<T> batch_scope::adopt(T* p, Deleter deleter) {
    auto const address = detail::to_address(p);
    if (!p || address >> detail::address_bits) throw error(errc::bad_address, "adopt");
    detail::cell* const cell = detail::take_cell();
    if (!cell) throw error(errc::memory_full, "adopt: no cell left");
    using record = detail::adopted<T, Deleter>;
    struct guard {
        detail::cell* c;
        ~guard() {
            if (c) detail::give_cell(*c);
        }
    } undo{cell};
    auto const h = make<record>(p, std::move(deleter), cell);
    auto const r = detail::handle_access::raw(h);
    undo.c       = nullptr;
    detail::fill_cell(*cell, r.pointer, r.word);
    return detail::handle_access::make(p, cell->word.load(std::memory_order_relaxed));
}

inline void batch_scope::require_this_thread(char const* call) const {
    auto* const guard = batch()->guard.load(std::memory_order_relaxed);
    if (guard && guard != &detail::this_thread)
        throw error(errc::wrong_thread, call + (" of batch " + detail::label_of(*batch_)));
}

inline batch_report batch_scope::end() {
    require_this_thread("end");
    return detail::end_with_report(*batch_, id_);
}

inline batch_report batch_scope::discard() {
    require_this_thread("discard");
    detail::discard_kept(*batch_);
    return detail::end_with_report(*batch_, id_);
}

inline detail::lane* batch_scope::enter_as(bool exclusive) const {
    if (!detail::hold(*batch(), id_))
        throw error(detail::over_because(batch_, id_), "enter batch " + detail::label_of(*batch_));
    return detail::enter_held(*batch_, exclusive);
}

inline batch_id batch_scope::detach() {
    require_this_thread("detach");
    if (batch_->state.load(std::memory_order_relaxed) & (detail::batch_flags::ended | detail::batch_flags::done))
        throw error(errc::batch_ended, "detach batch " + detail::label_of(*batch_));
    detail::detach_guard(*batch_);
    batch_ = &detail::nobody;
    return {id_};
}

inline batch_status batch_scope::status() const noexcept { return detail::status_of(*batch_, id_); }

namespace detail {

template <class T>
void keep_result(batch_scope& b, T& r) {
    if constexpr (owned<T> || handle_range<T>) b.keep(r);
    else if constexpr (requires { std::tuple_size<T>::value; }) {
        std::apply([&](auto&... part) { (keep_result(b, part), ...); }, r);
    }
}

/// Where the free functions act: this thread's current batch, else the root of the global registry.
inline lane& current_lane() {
    if (lane* const l = this_thread.current) [[likely]]
        return *l;
    return registry::global().root_lane();
}

}  // namespace detail

/// Runs `f(batch_scope&)` in a batch of its own. Handles in what f returns, alone, in a tuple or in a range, are
/// kept.
template <class F>
decltype(auto) with_batch(batch_options const& options, F&& f,
                          std::source_location where = std::source_location::current()) {
    batch_scope b(options, where);
    using R = std::invoke_result_t<F, batch_scope&>;
    if constexpr (std::is_void_v<R>) {
        std::forward<F>(f)(b);
    } else {
        R r = std::forward<F>(f)(b);
        detail::keep_result(b, r);
        return static_cast<R>(std::forward<R>(r));
    }
}
template <class F>
    requires std::is_invocable_v<F, batch_scope&>
decltype(auto) with_batch(F&& f, std::source_location where = std::source_location::current()) {
    return with_batch(batch_options{}, std::forward<F>(f), where);
}

/// As the members of batch_scope and registry, on this thread's current batch.
template <class T, class... Args>
[[gnu::always_inline]] inline handle<T> make(Args&&... args) {
    return detail::make_in<T>(detail::current_lane(), std::forward<Args>(args)...);
}
template <class T, class... Args>
result<handle<T>> try_make(Args&&... args) {
    return detail::try_make_in<T>(detail::current_lane(), std::forward<Args>(args)...);
}
template <class T>
buffer<T> make_buffer(std::size_t n, any_store const& store = {}) {
    return detail::make_buffer_in<T>(detail::current_lane(), n, store);
}
template <class T>
result<buffer<T>> try_make_buffer(std::size_t n, any_store const& store = {}) {
    return detail::as_result([&] { return detail::make_buffer_in<T>(detail::current_lane(), n, store); });
}
template <class T>
buffer<T> open_buffer(std::string_view name, any_store const& store = {}) {
    return detail::open_buffer_as<T>(detail::current_lane(), name, store);
}
template <detail::owned H>
H keep(H h) {
    detail::lane&   l   = detail::current_lane();
    detail::failure why = detail::keep_all(*l.batch, [&](auto f) { f(detail::handle_access::raw(h)); });
    if (why) detail::throw_failure(why, "keep from batch ");
    return h;
}
template <detail::owned H>
result<H> try_keep(H h) {
    detail::lane&   l   = detail::current_lane();
    detail::failure why = detail::keep_all(*l.batch, [&](auto f) { f(detail::handle_access::raw(h)); });
    if (why) return make_error_code(why.code);
    return h;
}
template <detail::owned H>
H transfer_ownership(H h, batch_id to) {
    detail::failure const why =
        detail::transfer_from(detail::current_lane(), detail::handle_access::raw(h), to.value);
    if (why) detail::throw_failure(why, "transfer ownership ");
    return h;
}
template <detail::owned H>
result<H> try_transfer_ownership(H h, batch_id to) {
    detail::failure const why =
        detail::transfer_from(detail::current_lane(), detail::handle_access::raw(h), to.value);
    if (why) return make_error_code(why.code);
    return h;
}
template <detail::handle_range R>
R&& transfer_ownership(R&& handles, batch_id to) {
    for (auto const& h : handles)
        if (!h.alive()) detail::throw_stale(detail::handle_access::raw(h));
    for (auto const& h : handles) transfer_ownership(h, to);
    return std::forward<R>(handles);
}
inline batch_id current_batch() noexcept { return registry::current_batch(); }

}  // namespace tenure

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <concepts>
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
#include <tenure/detail/life/calls.hpp>
#include <tenure/detail/objects/make_object.hpp>
#include <tenure/detail/uses/pinning.hpp>
#include <tenure/handle.hpp>
#include <tenure/lane.hpp>
#include <tenure/reach.hpp>
#include <tenure/registry.hpp>

namespace tenure {

class batch_scope;

namespace detail {

struct result_access;

/// Where a call stands in the source, by default argument. Unlike a std::source_location it is not what `{}` means.
struct call_site {
    call_site(std::source_location l) : location(l) {}  // NOLINT(google-explicit-constructor)

    std::source_location location;
};

}  // namespace detail

/// Names the scope to open another one below: batch_scope child{tenure::below(parent)}.
class below {
public:
    explicit below(batch_scope& parent) noexcept : scope_(&parent) {}

private:
    friend class batch_scope;
    batch_scope* scope_;
};

/// The guard of a batch: opens it, makes it current on this thread, ends it at the closing brace. Like
/// std::lock_guard it belongs to the thread and the block that opened it. Its calls are that thread's, but for
/// enter(), lane(), id(), name(), status() and usage().
///
/// The end frees all that the batch owns, newest first: what was not kept, transferred or freed before. It never
/// throws, never allocates, and touches no object that has no destructor. Open batches below it end first.
///
/// While an end calls destructors, deleters and what was deferred, the nearest active batch above the ending one is
/// current on the thread that calls: they may make objects, which live there, and open scopes, which they end
/// before they return. If another thread ends or cancels that batch meanwhile, a scope is opened above it, and make
/// throws.
class [[nodiscard]] batch_scope {
    using source = std::source_location;

public:
    /// Below this thread's current batch, else below the root of registry::global(). Throws std::bad_alloc,
    /// batch_ended.
    batch_scope(
        detail::call_site where = source::current())  // NOLINT(google-explicit-constructor): the default one
        : batch_scope(nullptr, nullptr, nullptr, where.location) {}
    explicit batch_scope(batch_options const& options, source where = source::current())
        : batch_scope(nullptr, nullptr, &options, where) {}

    /// With that name.
    template <class S>
        requires std::convertible_to<S const&, std::string_view>
    explicit batch_scope(S const& name, source where = source::current())
        : batch_scope(batch_options{.name = name}, where) {}

    /// Below the current batch if that is this registry's, else below the registry's root.
    explicit batch_scope(registry& in, detail::call_site where = source::current())
        : batch_scope(in.core_, nullptr, nullptr, where.location) {}
    batch_scope(registry& in, batch_options const& options, source where = source::current())
        : batch_scope(in.core_, nullptr, &options, where) {}

    /// Below that scope's batch, which may be another thread's.
    explicit batch_scope(below parent, detail::call_site where = source::current())
        : batch_scope(parent.scope_->core(), parent.scope_->batch_, nullptr, where.location) {}
    batch_scope(below parent, batch_options const& options, source where = source::current())
        : batch_scope(parent.scope_->core(), parent.scope_->batch_, &options, where) {}

    batch_scope(batch_scope const&) = delete;  // a batch below it: batch_scope child{tenure::below(parent)}
    batch_scope(batch_scope const&, batch_options const&) = delete;  // child{tenure::below(parent), {...}}
    batch_scope& operator=(batch_scope const&)            = delete;

    ~batch_scope() {
        if (!detail::is_over_record(batch_)) detail::close_guard(*batch_, id_);
    }

    /// Makes a T, or with make<T[]>(n) n value-initialised elements, at an address that never changes. What T's
    /// constructor throws passes, and nothing is registered. Throws batch_ended, limit_exceeded, memory_full, and
    /// wrong_thread where another thread opened the guard: at once in checked builds (TENURE_CHECKED, the default
    /// without optimization), else when more memory is wanted.
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
        if (!detail::keep_at_once(*batch_, detail::handle_access::raw(h))) require(try_keep_each(h));
        return h;
    }
    template <detail::owned... H>
        requires(sizeof...(H) > 1)
    std::tuple<H...> keep(H... h) {
        require(try_keep_each(h...));
        return {h...};
    }
    /// All that can be reached through ranges, tuples, optionals, results and variants, as with_batch says; or
    /// none.
    template <detail::holds_handles R>
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
    template <detail::holds_handles R>
    result<void> try_keep(R&& handles) {
        if (auto const why = try_keep_range(handles)) return make_error_code(why.code);
        return {};
    }

    /// As registry::share and broadcast.
    template <detail::owned H>
    H share(H h, batch_id with) {
        auto const why = detail::share_here(*batch(), detail::handle_access::raw(h), with.value);
        if (why) detail::throw_failure(why, "share ");
        return h;
    }
    template <detail::owned H, detail::id_range R>
    H broadcast(H h, R const& with) {
        auto const why = detail::broadcast_here(*batch(), detail::handle_access::raw(h), with);
        if (why) detail::throw_failure(why, "broadcast ");
        return h;
    }

    /// Frees one object of this batch now; of one that it shares, it lets go. Throws stale_handle,
    /// object_pinned, not_owner, batch_ended.
    template <detail::owned H>
    void free(H h) {
        if (auto const why = free_here(detail::handle_access::raw(h))) detail::throw_failure(why, "free in batch ");
    }
    template <detail::owned H>
    result<void> try_free(H h) {
        if (auto const why = free_here(detail::handle_access::raw(h))) return make_error_code(why.code);
        return {};
    }

    /// This batch uses an object of another one, of the same registry: while it does, that is neither freed nor
    /// moved nor paged out. A batch that ends meanwhile waits, whole, for those that use its objects, unless they
    /// wait for it likewise. Until this batch is gone; keeping the object elsewhere changes nothing. Returns what
    /// it was given. Throws stale_handle, batch_ended, not_owner, memory_full. Cost: tens of ns.
    template <detail::owned H>
    H borrow(H h, source where = source::current()) {
        require(borrow_here(detail::handle_access::raw(h), where), "borrow for batch ");
        return h;
    }
    template <detail::owned H>
    result<H> try_borrow(H h, source where = source::current()) {
        if (auto const why = borrow_here(detail::handle_access::raw(h), where)) return make_error_code(why.code);
        return h;
    }

    /// The end, now. Then the previous batch is current again, and make in this one throws batch_ended. Once more:
    /// a no-op that reports nothing new. Throws wrong_thread.
    batch_report end();

    /// As end(), and frees also what was kept out of this batch by keep() and is still alive. Throws object_pinned,
    /// too, if another batch uses some of that: then nothing was done.
    batch_report discard();

    /// Memory for containers that live in this batch. Give back what is over 64 KiB and what was allocated last at
    /// once, the rest with the batch. This thread's only. Throws what make throws. Used after the batch it throws
    /// batch_ended, or faults where that is long ago; what comes back then is ignored.
    std::pmr::memory_resource* resource() { return detail::resource_of(here()); }

    /// For one other thread. Throws std::bad_alloc, batch_ended.
    tenure::lane lane() { return tenure::lane(enter_as(true)); }

    /// Makes the batch current on the calling thread while the guard it returns lives. Throws std::bad_alloc,
    /// batch_ended.
    [[nodiscard]] entered enter() { return entered(enter_as(false)); }

    /// As those of registry, for this batch.
    void checkpoint() { detail::take_checkpoint(undoable("checkpoint"), id_); }
    void rollback() { detail::end_checkpoint(undoable("roll back"), id_, true); }
    void commit() { detail::end_checkpoint(undoable("commit"), id_, false); }

    /// Lets go: the batch lives until somebody ends its id, and holds its ancestors until then. Throws batch_ended,
    /// wrong_thread.
    batch_id detach();

    /// Makes no more here or in batches below, from any thread: make throws errc::cancelled, the stop_token fires,
    /// and what is not open on a thread goes at once, as do buffers that nobody has pinned or mapped or is just
    /// reading or writing; this batch when its guard closes. No-op if it is over. Cost: a few microseconds, a call
    /// of each store that has its buffers, and a pass over the batches of the process where there are batches
    /// below.
    void cancel() noexcept { detail::stop_batch(*batch_, id_, errc::cancelled); }

    /// Fires when the batch is cancelled, expires, or is asked to stop by the end of one above; on the thread that
    /// does it. Any thread. Throws std::bad_alloc.
    std::stop_token stop_token() const { return detail::stop_token_of(*batch_, id_); }

    batch_id     id() const noexcept { return {id_}; }
    std::string  name() const { return detail::name_of(*batch_); }
    batch_status status() const noexcept;
    batch_usage  usage() const noexcept { return detail::usage_of(*batch_); }

private:
    friend detail::result_access;

    batch_scope(detail::registry_core* core, detail::batch_record* parent, batch_options const* options,
                source where);

    static detail::opened_batch open_in_end(detail::registry_core const* core, batch_options const* options,
                                            source where);

    detail::batch_record& undoable(char const* call) const {
        if (!core())
            raise(error(errc::batch_ended, call + (" batch " + detail::label_of(id_)) + ", which was detached"));
        return *batch_;
    }
    detail::batch_record*  batch() const { return batch_; }
    detail::registry_core* core() const { return batch()->registry.load(std::memory_order_relaxed); }
    detail::lane&          here() const { return batch()->primary; }
    detail::lane*          enter_as(bool exclusive) const;
    void                   require_this_thread(char const* call) const;

    detail::failure free_here(detail::raw_handle h) const {
        return core() ? detail::free_one(*core(), h, batch()) : detail::failure{errc::batch_ended, batch()};
    }
    detail::failure borrow_here(detail::raw_handle h, source where) const {
        return detail::pin_for(*batch(), h, true, where).why;
    }
    void require(detail::failure const& why, char const* call = "keep from batch ") const {
        if (why) [[unlikely]]
            detail::throw_failure(why, call);
    }
    template <detail::owned... H>
    detail::failure try_keep_each(H const&... h) {
        return detail::keep_all(*batch(), [&](auto f) { (f(detail::handle_access::raw(h)) && ...); });
    }
    /// Of what with_batch returns: as keep, but for a handle that was never given an object.
    template <class R>
    void keep_result(R& r) {
        if constexpr (detail::knows_resource<R>)
            if (detail::is_resource_of_batch(*batch(), r.get_allocator().resource()))
                require({errc::not_self_contained, batch()}, "return a container from batch ");
        if constexpr (detail::may_hold_handles<R>())
            require(detail::keep_all(*batch(), [&](auto f) {
                auto one = [&](auto const& h) {
                    detail::raw_handle const raw = detail::handle_access::raw(h);
                    return !raw.word || f(raw);
                };
                detail::for_each_handle(r, one);
            }));
    }
    template <class R>
    detail::failure try_keep_range(R& handles) {
        return detail::keep_all(*batch(), [&](auto f) {
            auto one = [&](auto const& h) { return f(detail::handle_access::raw(h)); };
            detail::for_each_handle(handles, one);
        });
    }

    detail::batch_record* batch_ =
        nullptr;  ///< once detached, one that is over_record_of(): all calls say batch_ended
    std::uint64_t id_ = 0;
};

}  // namespace tenure

#include <tenure/current.hpp>
#include <tenure/impl/batch_scope.hpp>

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <memory_resource>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tenure/batch.hpp>
#include <tenure/detail/base/clocks.hpp>
#include <tenure/detail/batch/lane.hpp>
#include <tenure/detail/life/public_calls.hpp>
#include <tenure/detail/objects/make_object.hpp>
#include <tenure/handle.hpp>
#include <tenure/lane.hpp>
#include <tenure/reach.hpp>

namespace tenure {

class batch_scope;
class registry;

namespace detail {

struct result_access;

/// A batch with a guard on this thread: the batch's own lane, and its id.
struct opened_scope {
    lane*         where;
    std::uint64_t id;
};

/// What the constructors of batch_scope do: below that scope's batch, else below the current one if it is that
/// registry's, else below the registry's root. `options` may be null.
TENURE_DECL opened_scope open_scope(registry* in, lane* below, batch_options const* options,
                                    std::source_location where);

/// Below the current batch, without options.
TENURE_DECL opened_scope open_scope(std::source_location where);

/// What its destructor does.
TENURE_DECL void end_scope(lane& l, std::uint64_t id) noexcept;

/// Holds where a call stands in the source, as a default argument. `{}` does not convert to it, as it does to a
/// std::source_location.
struct call_site {
    call_site(std::source_location l) : location(l) {}  // NOLINT(google-explicit-constructor)

    std::source_location location;
};

}  // namespace detail

/// Names a scope, so that another one opens below it: batch_scope child{tenure::below(parent)}.
class below {
public:
    explicit below(batch_scope& parent) noexcept : scope_(&parent) {}

private:
    friend class batch_scope;
    batch_scope* scope_;
};

/// Guards a batch: opens it, makes it current on this thread, ends it at the closing brace. Like std::lock_guard,
/// it belongs to the thread and the block that opened it. Only that thread may call it, except enter(), lane(),
/// id(), name(), status(), usage(), stop_token(), and set_name() and the like.
///
/// The end frees everything that the batch still owns, newest first: what was not kept, transferred or freed
/// before. It never throws, never allocates, and touches no object without a destructor. Open batches below it end
/// first.
///
/// While an end calls destructors, deleters and deferred functions, the nearest active batch above the ending one
/// is current on the calling thread. They may make objects, which live there, and open scopes, which they end
/// before they return. If another thread ends or cancels that batch meanwhile, a scope opens above it, and make
/// throws.
///
/// A call that throws batch_ended throws `expired` or `cancelled` if that is why the batch is over.
class [[nodiscard]] batch_scope {
    using source = std::source_location;

public:
    /// Opens a batch below this thread's current one, else below the root of registry::global(). Throws
    /// std::bad_alloc, batch_ended; batch_in_use for more than 4 million scopes of one thread directly below one.
    batch_scope(
        detail::call_site where = source::current())  // NOLINT(google-explicit-constructor): the default one
        : batch_scope(detail::open_scope(where.location), nullptr) {}
    explicit batch_scope(batch_options const& options, source where = source::current())
        : batch_scope(detail::open_scope(nullptr, nullptr, &options, where), nullptr) {}

    /// As batch_scope(), with a name.
    template <class S>
        requires std::convertible_to<S const&, std::string_view>
    explicit batch_scope(S const& name, source where = source::current())
        : batch_scope(batch_options{.name = name}, where) {}

    /// Opens a batch below this thread's current one if that is of registry `in`, else below the root of `in`.
    /// Throws as batch_scope().
    explicit batch_scope(registry& in, detail::call_site where = source::current())
        : batch_scope(detail::open_scope(&in, nullptr, nullptr, where.location), nullptr) {}
    batch_scope(registry& in, batch_options const& options, source where = source::current())
        : batch_scope(detail::open_scope(&in, nullptr, &options, where), nullptr) {}

    /// Opens a batch below that of scope `parent`, which may be another thread's. Throws as batch_scope().
    explicit batch_scope(below parent, detail::call_site where = source::current())
        : batch_scope(detail::open_scope(nullptr, parent.scope_->lane_, nullptr, where.location), nullptr) {}
    batch_scope(below parent, batch_options const& options, source where = source::current())
        : batch_scope(detail::open_scope(nullptr, parent.scope_->lane_, &options, where), nullptr) {}

    batch_scope(batch_scope const&) = delete;  // for a batch below: batch_scope child{tenure::below(parent)}
    batch_scope(batch_scope const&, batch_options const&) = delete;  // or child{tenure::below(parent), {...}}
    batch_scope& operator=(batch_scope const&)            = delete;

    ~batch_scope() { detail::end_scope(*lane_, id_); }

    /// Makes a T at an address that never changes; by make<T[]>(n), n value-initialised elements; by
    /// make<T[]>(n, value), n copies; by make<T[]>({a, b, c}), copies of these. A T that takes a
    /// polymorphic_allocator, and is given none, takes its memory from resource(), and so cannot be kept, but
    /// copied: docs/lifetimes.md.
    ///
    /// An exception from T's constructor passes, and nothing is registered. Throws batch_ended, limit_exceeded,
    /// memory_full, and wrong_thread if another thread opened the guard: at once in checked builds (TENURE_CHECKED,
    /// the default with neither NDEBUG nor optimization), else when more memory is needed. Cost: moving a pointer;
    /// above 64 KiB, a lock and a run of its own.
    template <class T, class... Args>
    [[gnu::always_inline]] handle<T> make(Args&&... args) {
        return detail::make_in<T>(here(), std::forward<Args>(args)...);
    }

    /// As make(), but returns tenure's own errors.
    template <class T, class... Args>
    result<handle<T>> try_make(Args&&... args) {
        return detail::try_make_in<T>(here(), std::forward<Args>(args)...);
    }
    template <class T>
    handle<T> make(detail::elements_of<T> list) {
        return detail::make_list_in<T>(here(), list);
    }
    template <class T>
    result<handle<T>> try_make(detail::elements_of<T> list) {
        return detail::try_make_list_in<T>(here(), list);
    }

    /// As make<T>() and make<T[]>(n), but default-initialises, as std::make_unique_for_overwrite does: constructors
    /// run; what has none keeps whatever bytes are there, and costs no write. Throws as make().
    template <class T, std::convertible_to<std::size_t>... N>
    [[gnu::always_inline]] handle<T> make_for_overwrite(N... n) {
        return detail::make_for_overwrite_in<T>(here(), static_cast<std::size_t>(n)...);
    }
    template <class T, std::convertible_to<std::size_t>... N>
    result<handle<T>> try_make_for_overwrite(N... n) {
        return detail::try_make_for_overwrite_in<T>(here(), static_cast<std::size_t>(n)...);
    }

    /// Makes an array of `n` T in `store`, by default the batch's own (batch_options::store), with unspecified
    /// contents. Its bytes count towards the batch's limits. Throws as make(), and what the store reports. Cost:
    /// that of allocate(), and some 50 ns.
    template <class T>
    buffer<T> make_buffer(std::size_t n, any_store const& store = {}) {
        return detail::make_buffer_in<T>(here(), n, store);
    }
    template <class T>
    result<buffer<T>> try_make_buffer(std::size_t n, any_store const& store = {}) {
        return detail::try_make_buffer_in<T>(here(), n, store);
    }

    /// As make_buffer<T>(n), with copies of a range's elements: make_buffer(std::span(x).first(n)). On failure no
    /// buffer was made. Cost: one write() more; what is not contiguous is copied into memory here first.
    template <detail::element_range R>
    buffer<detail::element_of<R>> make_buffer(R&& elements, any_store const& store = {}) {
        return detail::make_buffer_of(here(), elements, store);
    }
    template <detail::element_range R>
    result<buffer<detail::element_of<R>>> try_make_buffer(R&& elements, any_store const& store = {}) {
        return detail::try_make_buffer_of(here(), elements, store);
    }

    /// Opens the buffer that buffer::persist() kept in a durable store under `name`. It stays the store's: the end
    /// of the batch closes only this access. Throws as make(), and no_such_block, not_durable, and out_of_range if
    /// its size is not a multiple of T's.
    template <class T>
    buffer<T> open_buffer(std::string_view name, any_store const& store = {}) {
        return detail::open_buffer_as<T>(here(), name, store);
    }

    /// Registers an object made elsewhere: its end calls `deleter(p)`. On failure the caller keeps the object.
    /// release() takes it back. Access through the handle costs a little more than to what make() made. Throws as
    /// make(), and bad_address.
    template <class T, class Deleter = std::default_delete<T>>
    handle<T> adopt(T* p, Deleter deleter = {}) {
        return detail::adopt_in(here(), p, std::move(deleter));
    }
    template <class T, class Deleter>
    handle<T> adopt(std::unique_ptr<T, Deleter>&& p) {
        return detail::adopt_in(here(), std::move(p));
    }

    /// Makes a buffer of memory made elsewhere, which map() then shows. deleter(memory.data()) is called once, by
    /// whoever frees the buffer: the end of its batch, on any thread and after all destructors there; free();
    /// move_to() another store, after the copy; evict(). It must not throw. On failure the caller keeps the memory.
    ///
    /// Its bytes count towards the batch's limits. Its store makes no other blocks, and no files: until it is
    /// moved, resize() and copy() throw store_full, persist() not_durable, a checkpoint of its batch
    /// not_restorable. Throws as make(), and bad_address if memory.data() is null or no T's. Cost: some 150 ns.
    template <class T, std::size_t N, class Deleter>
    buffer<T> adopt_buffer(std::span<T, N> memory, Deleter deleter) {
        return detail::adopt_buffer_in<T>(here(), memory, std::move(deleter));
    }

    /// Takes an adopted object back: its batch knows it no more, its handles are stale, the deleter does not run
    /// and is destroyed. Returns the pointer, which is the caller's. Throws stale_handle, not_owner (of what others
    /// have a share in, too), object_pinned, not_restorable, batch_ended, and not_adopted for what make() made.
    /// Nothing was done then. Cost: that of free().
    template <class T>
    T* release(handle<T> h) {
        detail::require_adoptable<T>();
        if (auto const why = detail::drop_in(here(), detail::handle_access::raw(h)))
            detail::throw_failure(why, "release from batch ");
        return h.unchecked();
    }
    template <class T>
    result<T*> try_release(handle<T> h) {
        detail::require_adoptable<T>();
        if (auto const why = detail::drop_in(here(), detail::handle_access::raw(h)))
            return make_error_code(why.code);
        return h.unchecked();
    }

    /// Calls `f()` at the end, in the order of destructors, or in a phase of its own. `f` must not throw. Throws as
    /// make(). The handle may be dropped. Cost: that of make(); in another phase than in_order, some 12 ns more.
    template <class F>
    handle<deferred_call> defer(F f) {
        return detail::defer_in(here(), f);
    }
    template <class F>
    handle<deferred_call> defer(F f, release_phase phase) {
        return detail::defer_in(here(), f, phase);
    }

    /// Takes a deferred call back: `f` does not run, and is destroyed. Throws stale_handle if it has run, runs, or
    /// was cancelled; otherwise as release(). Cost: that of free().
    void cancel(handle<deferred_call> call) {
        if (auto const why = detail::drop_in(here(), detail::handle_access::raw(call)))
            detail::throw_failure(why, "cancel a deferred call of batch ");
    }
    result<void> try_cancel(handle<deferred_call> call) {
        if (auto const why = detail::drop_in(here(), detail::handle_access::raw(call)))
            return make_error_code(why.code);
        return {};
    }

    /// Gives an object to the parent batch, and returns the handle. What the parent or a batch above it already
    /// owns stays there. Throws stale_handle, not_owner, not_self_contained, not_restorable, batch_ended,
    /// limit_exceeded, memory_full, and wrong_thread: the object has more than 64 KiB and a destructor, and was
    /// made by a lane that another thread has open. On failure nothing is kept.
    template <detail::owned H>
    H keep(H h) {
        detail::require_kept(detail::keep_these(here(), h));
        return h;
    }
    template <detail::owned... H>
        requires(sizeof...(H) > 1)
    std::tuple<H...> keep(H... h) {
        detail::require_kept(detail::keep_these(here(), h...));
        return {h...};
    }
    /// As keep(h), for every handle that can be reached through ranges, tuples, optionals, results and variants,
    /// as with_batch says; all or none.
    template <detail::holds_handles R>
    R&& keep(R&& handles) {
        detail::require_kept(detail::keep_range(here(), handles));
        return std::forward<R>(handles);
    }

    /// As keep(), but returns the error.
    template <detail::owned H>
    result<H> try_keep(H h) {
        if (auto const why = detail::keep_these(here(), h)) return make_error_code(why.code);
        return h;
    }
    template <detail::owned... H>
        requires(sizeof...(H) > 1)
    result<std::tuple<H...>> try_keep(H... h) {
        if (auto const why = detail::keep_these(here(), h...)) return make_error_code(why.code);
        return std::tuple(h...);
    }
    template <detail::holds_handles R>
    result<void> try_keep(R&& handles) {
        if (auto const why = detail::keep_range(here(), handles)) return make_error_code(why.code);
        return {};
    }

    /// Gives all that the batch owns to its parent; the batch goes on, empty. What was deferred goes, too, and
    /// handles stay valid. Containers go on with their memory: what resource() returned so far allocates from the
    /// parent from here on, if the parent is open on this thread. discard() does not take this back.
    ///
    /// Throws batch_ended, wrong_thread; batch_in_use: another thread is inside or has a lane, a batch below is
    /// open, or something of it is pinned or borrowed; not_restorable: this batch or the parent has a checkpoint;
    /// not_self_contained: there is a resource(), and another thread makes in the parent; limit_exceeded,
    /// memory_full. Nothing is kept then. Needs <tenure/whole_batch.hpp>.
    ///
    /// Cost: by memory, not by objects; some 50 ns for each run of up to 16 MiB. In a batch of up to four units of
    /// 64 KiB, and where another thread makes in the parent or that has another store, about 1 us a unit, and there
    /// also a step for each object with a destructor; always a step for each buffer, and for what has more than 64
    /// KiB.
    template <class Feature = detail::whole_batch_calls>
    void keep_all() {
        detail::require_whole_batch<Feature>();
        if (auto const why = Feature::give_all(*lane_, id_)) detail::throw_failure(why, "keep all of batch ");
    }
    template <class Feature = detail::whole_batch_calls>
    result<void> try_keep_all() {
        detail::require_whole_batch<Feature>();
        if (auto const why = Feature::give_all(*lane_, id_)) return make_error_code(why.code);
        return {};
    }

    /// As keep_all(), but for the objects that can be reached from `staying`, as keep(range) finds them: these stay
    /// here. What a batch above owns stays there. Throws stale_handle and not_owner, too; not_self_contained of a
    /// container in `staying` whose memory is this batch's; and what going through `staying` throws. All or
    /// nothing, but for one thing: if memory is too full even to undo what another error had begun, what could not
    /// come back stays in a batch below, until this one ends.
    ///
    /// Cost: twice that of keep_all(), and some 100 ns for each object that stays.
    template <detail::reaches_handles R, class Feature = detail::whole_batch_calls>
    void keep_all_but(R&& staying) {
        detail::require_whole_batch<Feature>();
        if (auto const why = Feature::give_all_but(*lane_, id_, detail::handles_in(staying)))
            detail::throw_failure(why, "keep all but some objects of batch ");
    }
    template <detail::reaches_handles R, class Feature = detail::whole_batch_calls>
    result<void> try_keep_all_but(R&& staying) {
        detail::require_whole_batch<Feature>();
        if (auto const why = Feature::give_all_but(*lane_, id_, detail::handles_in(staying)))
            return make_error_code(why.code);
        return {};
    }

    /// Makes a copy of an object, whichever batch owns it, in the parent batch, and returns the handle of the copy.
    /// The object itself stays where it is. The copy holds its own bytes there and nothing of this batch's memory.
    /// T is what the handle says: a class with virtual functions must be final, so that nothing is sliced. Of an
    /// array, all elements are copied.
    ///
    /// A copy constructor that takes a memory resource, as those of std::pmr containers do, gets the parent's
    /// resource() if the parent is open on this thread; else the copy does without. What the constructor makes
    /// lives in the parent, too.
    ///
    /// Throws stale_handle, not_owner in the root; as make() in the parent; what the copy constructor throws. On
    /// failure nothing is kept. Cost: that of make() and some 70 instructions if the parent is open on this thread,
    /// 200 if T is not trivially copyable; else, that of entering the parent, too.
    template <class T, class Feature = detail::copy_calls>
    handle<T> keep_copy(handle<T> h) {
        detail::require_copies<Feature>();
        return Feature::copy_up(here(), h);
    }

    /// As keep_copy(), but returns tenure's own errors, and memory_full for std::bad_alloc.
    template <class T, class Feature = detail::copy_calls>
    result<handle<T>> try_keep_copy(handle<T> h) {
        detail::require_copies<Feature>();
        return Feature::try_copy_up(here(), h);
    }

    /// As registry::share. Throws batch_ended also if this batch is over.
    template <detail::owned H, class Feature = detail::sharing_calls>
    H share(H h, batch_id with) {
        detail::require_sharing<Feature>();
        auto const why = Feature::share(here(), detail::handle_access::raw(h), with.value);
        if (why) detail::throw_failure(why, "share ");
        return h;
    }
    template <detail::owned H, detail::id_range R, class Feature = detail::sharing_calls>
    H broadcast(H h, R const& with) {
        detail::require_sharing<Feature>();
        auto const why = Feature::broadcast(here(), detail::handle_access::raw(h), detail::ids_in(with));
        if (why) detail::throw_failure(why, "broadcast ");
        return h;
    }

    /// Frees one object of this batch now; of a shared object, gives up this batch's share. Throws stale_handle,
    /// object_pinned, not_owner, not_restorable, batch_ended.
    template <detail::owned H>
    void free(H h) {
        if (auto const why = detail::free_in(here(), detail::handle_access::raw(h)))
            detail::throw_failure(why, "free in batch ");
    }
    template <detail::owned H>
    result<void> try_free(H h) {
        if (auto const why = detail::free_in(here(), detail::handle_access::raw(h)))
            return make_error_code(why.code);
        return {};
    }

    /// Uses an object of another batch of the same registry until this batch is gone: until then the object is
    /// neither freed nor moved nor paged out. If the object's batch ends meanwhile, that batch waits, whole, for
    /// those that use its objects, unless they wait for it in turn. Keeping the object elsewhere changes nothing.
    /// Returns the handle. Throws as tenure::pin. Cost: tens of ns.
    template <detail::owned H, class Feature = detail::pin_calls>
    H borrow(H h, source where = source::current()) {
        detail::require_pins<Feature>();
        require(Feature::borrow(here(), detail::handle_access::raw(h), where), "borrow for batch ");
        return h;
    }
    template <detail::owned H, class Feature = detail::pin_calls>
    result<H> try_borrow(H h, source where = source::current()) {
        detail::require_pins<Feature>();
        if (auto const why = Feature::borrow(here(), detail::handle_access::raw(h), where))
            return make_error_code(why.code);
        return h;
    }

    /// Ends the batch now. The previous batch is current again, and make in this one throws batch_ended. A second
    /// call does nothing and reports nothing new. Throws wrong_thread.
    batch_report end();

    /// As end(), and also frees what keep() gave away from this batch and is still alive. Throws object_pinned,
    /// too, if another batch uses some of that; then nothing was done.
    batch_report discard();

    /// Frees all that the batch owns, as its end would, and goes on, with the same id, name, limits and deadline,
    /// and with memory that is warm. Handles into it are stale. A resource() of before is over, as after an end, so
    /// containers on it may be destroyed later. usage(), the report of the end, and discard() know of what comes
    /// later only. What it pins and borrows stays so.
    ///
    /// Throws batch_ended, wrong_thread; batch_in_use: another thread is inside or has a lane, a batch below is
    /// open, or something of it is pinned or borrowed; not_restorable: a checkpoint is open. Nothing was done then.
    /// Cost: that of an end and an opening. Needs <tenure/whole_batch.hpp>.
    template <class Feature = detail::whole_batch_calls>
    void clear() {
        detail::require_whole_batch<Feature>();
        if (auto const why = Feature::clear(*lane_, id_)) detail::throw_failure(why, "clear batch ");
    }
    template <class Feature = detail::whole_batch_calls>
    result<void> try_clear() {
        detail::require_whole_batch<Feature>();
        if (auto const why = Feature::clear(*lane_, id_)) return make_error_code(why.code);
        return {};
    }

    /// As clear(), but for the objects that can be reached from `staying`, which are found, and refused, as by
    /// keep_all_but(). All or nothing, with the same exception. Destructors run in a batch below this one, so what
    /// they make lands here. usage() and the report count what stays as received. Throws memory_full, too.
    ///
    /// Cost: that of keep_all() and of an end, and some 100 ns for each object that stays.
    template <detail::reaches_handles R, class Feature = detail::whole_batch_calls>
    void clear_but(R&& staying) {
        detail::require_whole_batch<Feature>();
        if (auto const why = Feature::clear_but(*lane_, id_, detail::handles_in(staying)))
            detail::throw_failure(why, "clear all but some objects of batch ");
    }
    template <detail::reaches_handles R, class Feature = detail::whole_batch_calls>
    result<void> try_clear_but(R&& staying) {
        detail::require_whole_batch<Feature>();
        if (auto const why = Feature::clear_but(*lane_, id_, detail::handles_in(staying)))
            return make_error_code(why.code);
        return {};
    }

    /// Gives the batch another name, for messages, snapshots and reports: copied, cut after 63 bytes. Any thread,
    /// as set_priority(), set_limits() and set_timeout(). Throws batch_ended.
    template <class Feature = detail::change_batch_calls>
    void set_name(std::string_view name) {
        detail::require_changes<Feature>();
        if (auto const why = Feature::set_name({*lane_, id_}, name))
            detail::throw_failure(why, "set the name of batch ");
    }
    template <class Feature = detail::change_batch_calls>
    result<void> try_set_name(std::string_view name) {
        detail::require_changes<Feature>();
        if (auto const why = Feature::set_name({*lane_, id_}, name)) return make_error_code(why.code);
        return {};
    }

    /// Says how far the job is: so much of `total` is done, in units of its own; 0: nobody knows of how much. The
    /// snapshot tells the rate, and the time left. Any thread. Throws batch_ended, memory_full. Cost: some 50 ns.
    template <class Feature = detail::change_batch_calls>
    void progress(std::uint64_t done, std::uint64_t total = 0) {
        detail::require_changes<Feature>();
        if (auto const why = Feature::progress({*lane_, id_}, done, total))
            detail::throw_failure(why, "note the progress of batch ");
    }
    template <class Feature = detail::change_batch_calls>
    result<void> try_progress(std::uint64_t done, std::uint64_t total = 0) {
        detail::require_changes<Feature>();
        if (auto const why = Feature::progress({*lane_, id_}, done, total)) return make_error_code(why.code);
        return {};
    }

    /// Gives the batch another priority: see batch_options::priority. Throws batch_ended.
    template <class Feature = detail::change_batch_calls>
    void set_priority(int priority) {
        detail::require_changes<Feature>();
        if (auto const why = Feature::set_priority({*lane_, id_}, priority))
            detail::throw_failure(why, "set the priority of batch ");
    }
    template <class Feature = detail::change_batch_calls>
    result<void> try_set_priority(int priority) {
        detail::require_changes<Feature>();
        if (auto const why = Feature::set_priority({*lane_, id_}, priority)) return make_error_code(why.code);
        return {};
    }

    /// Moves the batch to another parent: see registry::reparent. Called by the thread that has the guard, which
    /// stays where it is.
    template <class Feature = detail::change_batch_calls>
    void reparent(batch_id parent) {
        detail::require_changes<Feature>();
        if (auto const why = Feature::reparent({*lane_, id_}, parent)) detail::throw_failure(why, "move batch ");
    }
    template <class Feature = detail::change_batch_calls>
    result<void> try_reparent(batch_id parent) {
        detail::require_changes<Feature>();
        if (auto const why = Feature::reparent({*lane_, id_}, parent)) return make_error_code(why.code);
        return {};
    }

    /// Gives the batch other limits, all of them. What is in use counts; if it is above `hard`, makes are refused
    /// until enough is freed, and if it is above `soft`, the next make calls the new `on_soft`. Of what another
    /// thread has counted ahead, up to 64 KiB, it makes objects as before. An `on_soft` that is just being called
    /// returns in its time.
    ///
    /// A batch that was opened with limits or a timeout can be changed at any time. Any other must be alone: throws
    /// batch_in_use if a batch is open below it, another thread is inside or has a lane, or something of it is
    /// pinned or borrowed. Throws batch_ended, memory_full, and what copying `on_soft` throws, with nothing
    /// changed.
    template <class Feature = detail::change_batch_calls>
    void set_limits(batch_limits const& limits) {
        detail::require_changes<Feature>();
        if (auto const why = Feature::set_limits({*lane_, id_}, limits))
            detail::throw_failure(why, "set the limits of batch ");
    }
    template <class Feature = detail::change_batch_calls>
    result<void> try_set_limits(batch_limits const& limits) {
        detail::require_changes<Feature>();
        if (auto const why = Feature::set_limits({*lane_, id_}, limits)) return make_error_code(why.code);
        return {};
    }

    /// Gives the batch as long as that from now on, whatever it had; no_timeout: no deadline of its own. It still
    /// ends with the batch above, at the latest. Batches below it with deadlines of their own keep these. Throws as
    /// set_limits(), and what the supervisor's executor throws, with nothing changed.
    template <class Feature = detail::change_batch_calls>
    void set_timeout(std::chrono::nanoseconds timeout) {
        detail::require_changes<Feature>();
        if (auto const why = Feature::set_timeout({*lane_, id_}, timeout))
            detail::throw_failure(why, "set the timeout of batch ");
    }
    template <class Feature = detail::change_batch_calls>
    result<void> try_set_timeout(std::chrono::nanoseconds timeout) {
        detail::require_changes<Feature>();
        if (auto const why = Feature::set_timeout({*lane_, id_}, timeout)) return make_error_code(why.code);
        return {};
    }

    /// Returns memory for containers that live in this batch, for this thread only. An allocation above 64 KiB,
    /// and the newest one, is given back at once when deallocated, the rest with the batch. Throws as make().
    /// After the batch, an allocation throws batch_ended, or faults if the end is long ago; a deallocation is
    /// ignored.
    std::pmr::memory_resource* resource() { return detail::resource_of(here()); }

    /// Opens a lane for one other thread. Throws std::bad_alloc, batch_ended.
    tenure::lane lane() { return tenure::lane(enter_as(true)); }

    /// Makes the batch current on the calling thread while the returned guard lives. Throws std::bad_alloc,
    /// batch_ended.
    [[nodiscard]] entered enter() { return entered(enter_as(false)); }

    /// As registry::checkpoint, for this batch.
    template <class Feature = detail::checkpoint_calls>
    void checkpoint() {
        detail::require_checkpoints<Feature>();
        Feature::take(*lane_, id_);
    }
    template <class Feature = detail::checkpoint_calls>
    void rollback() {
        detail::require_checkpoints<Feature>();
        Feature::end(*lane_, id_, true);
    }
    template <class Feature = detail::checkpoint_calls>
    void commit() {
        detail::require_checkpoints<Feature>();
        Feature::end(*lane_, id_, false);
    }

    /// Lets the batch go and returns its id. The batch lives until that id is ended, and holds its ancestors until
    /// then. One that another thread has asked to stop ends at once. Throws batch_ended, wrong_thread;
    /// batch_in_use, as registry::new_batch.
    batch_id detach();

    /// Takes an object of this batch out of all batches: the unique_owner that is returned frees it. It stays where
    /// it is, and its handles stay valid. Throws as registry::transfer_ownership, and not_owner of what others have
    /// a share in, too. Needs <tenure/unique_owner.hpp>, which says more.
    template <detail::owned H, class Feature = detail::detach_calls>
    auto detach(H h) {
        detail::require_detaching<Feature, H>();
        return Feature::detach(here(), h);
    }
    template <detail::owned H, class Feature = detail::detach_calls>
    auto try_detach(H h) {
        detail::require_detaching<Feature, H>();
        return Feature::try_detach(here(), h);
    }

    /// Cancels the batch: on every thread, make here and in batches below throws errc::cancelled from then on. The
    /// stop_token fires. Batches below that are not open on a thread go at once; this batch goes when its guard
    /// closes. Buffers lose their bytes at once, except those that are pinned, mapped, being read or written, or
    /// under a checkpoint. Does nothing if the batch is over. Cost: as registry::end_batch(), and a call of each
    /// store that has its buffers.
    template <class Feature = detail::timing_calls>
    void cancel() noexcept {
        detail::require_timing<Feature>();
        Feature::cancel(*lane_, id_);
    }

    /// Returns a std::stop_token that fires when the batch is cancelled, expires, or is asked to stop by
    /// registry::end_batch or the end of a batch above. It fires on the thread that does so. Any thread. Throws
    /// std::bad_alloc.
    template <class Feature = detail::timing_calls>
    auto stop_token() const {
        detail::require_timing<Feature>();
        return Feature::stop_token(*lane_, id_);
    }

    batch_id id() const noexcept { return {id_}; }
    operator batch_id() const noexcept { return {id_}; }  ///< for calls that take an id
    std::string  name() const;
    batch_status status() const noexcept;
    batch_usage  usage() const noexcept;

private:
    friend detail::result_access;

    /// By value, for a call that took the scope itself would keep the compiler from holding its lane in a register.
    batch_scope(detail::opened_scope const& opened, std::nullptr_t) noexcept
        : lane_(opened.where), id_(opened.id) {}

    detail::lane&         here() const { return *lane_; }
    detail::batch_record& batch() const;
    detail::lane*         enter_as(bool exclusive) const;
    void                  require_this_thread(char const* call) const;

    void require(detail::failure const& why, char const* call = "keep from batch ") const {
        if (why) [[unlikely]]
            detail::throw_failure(why, call);
    }
    /// Keeps what with_batch returns, as keep(), but skips a handle that was never given an object.
    template <class R>
    void keep_result(R& r) {
        if constexpr (detail::knows_resource<R>)
            if (detail::is_resource_of(here(), r.get_allocator().resource()))
                require({errc::not_self_contained, here().batch}, "return a container from batch ");
        if constexpr (detail::may_hold_handles<R>())
            require(detail::keep_all(here(), [&](auto& to) {
                auto one = [&](auto const& h) {
                    detail::raw_handle const raw = detail::handle_access::raw(h);
                    return !raw.word || to.add(raw);
                };
                detail::for_each_handle(r, one);
            }));
    }

    /// The batch's own lane; once detached, that of a record that stands for what is over: all calls say
    /// batch_ended.
    detail::lane* lane_ = nullptr;
    std::uint64_t id_   = 0;
};

}  // namespace tenure

#include <tenure/current.hpp>

#ifndef TENURE_SEPARATE
#include <tenure/impl/batch_scope.ipp>
#endif

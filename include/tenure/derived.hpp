// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <source_location>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tenure/batch_scope.hpp>
#include <tenure/buffer.hpp>
#include <tenure/detail/base/sizes.hpp>
#include <tenure/sharing.hpp>

namespace tenure {

namespace detail {

/// Memory of this process for elements whose store has no address for them.
template <class T>
class staging {
public:
    explicit staging(std::size_t n)
        : memory_(new(std::align_val_t{buffer_alignment<T>}) std::byte[n * sizeof(T)]) {}
    T* data() const noexcept { return reinterpret_cast<T*>(memory_.get()); }

private:
    struct deleter {
        void operator()(std::byte* p) const noexcept {
            ::operator delete[](p, std::align_val_t{buffer_alignment<T>});
        }
    };
    std::unique_ptr<std::byte[], deleter> memory_;
};

/// The elements of an input: in place if they have an address, else read into memory of their own.
template <class T>
class input_elements {
public:
    explicit input_elements(frozen_buffer<T> const& b) {
        if (b.stores().front().capabilities().addressable) {
            elements_ = b.map();
            return;
        }
        std::span<T> const here((copy_ = std::make_unique<staging<T>>(b.size()))->data(), b.size());
        b.read(0, here);
        elements_ = here;
    }
    operator std::span<T const>() const noexcept { return elements_; }  // NOLINT(google-explicit-constructor)

private:
    std::span<T const>          elements_;
    std::unique_ptr<staging<T>> copy_;
};

/// Makes a buffer that names a block during one call.
class lent_buffer {
public:
    lent_buffer(supply& s, block where)
        : batch_(open_batch(s.registry, s.registry.root, nullptr, false, std::source_location::current())) {
        struct guard {
            lent_buffer* self;
            ~guard() {
                if (self) end_record(*self->batch_.record, self->batch_.id, true);
            }
        } undo{this};
        hold(*batch_.record, batch_.id);
        lane* const l = enter_held(*batch_.record);
        struct inside {
            lane* l;
            ~inside() { leave_lane(l); }
        } const here{l};
        buffer_   = make_buffer_record(*l, {s, where, true});
        undo.self = nullptr;
    }
    ~lent_buffer() { end_record(*batch_.record, batch_.id, true); }
    lent_buffer(lent_buffer const&)            = delete;
    lent_buffer& operator=(lent_buffer const&) = delete;

    raw_handle raw() const noexcept { return buffer_; }

private:
    opened_batch batch_;
    raw_handle   buffer_{};
};

template <class T, class F, class... In>
class derivation_of final : public derivation {
public:
    using on_elements                 = std::is_invocable<F&, std::span<T>, std::span<In const>...>;
    static constexpr bool by_elements = on_elements::value;
    static_assert(std::disjunction_v<on_elements, std::is_invocable<F&, buffer<T>, frozen_buffer<In>...>>,
                  "make_derived<T>(n, f, inputs...) calls f(span<T> out, span<In const> in...), or "
                  "f(buffer<T> out, frozen_buffer<In> in...)");

    derivation_of(std::size_t n, F f, frozen_buffer<In> const&... in)
        : derivation(buffer_alignment<T>), size_(n), make_(std::move(f)), in_(in...) {}

private:
    void run(supply& s, block into) override {
        std::apply(
            [&](auto const&... in) {
                if constexpr (by_elements) run_on_elements(s.store, into, input_elements<In>(in)...);
                else {
                    lent_buffer const out(s, into);
                    make_(handle_access::make_buffer<buffer<T>>(out.raw(), size_), in...);
                }
            },
            in_);
    }

    template <class... E>
    void run_on_elements(any_store& store, block into, E const&... in) {
        if (result<std::byte*> const at = store.try_address(into)) {
            make_(std::span<T>(reinterpret_cast<T*>(*at), size_), std::span<In const>(in)...);
            return;
        }
        staging<T> const   memory(size_);
        std::span<T> const out(memory.data(), size_);
        make_(out, std::span<In const>(in)...);
        if (auto const done = store.write(into, 0, std::as_bytes(out)); !done)
            throw_store_error(done.error(), "write what a derivation made to", store);
    }

    std::size_t                      size_;
    F                                make_;
    std::tuple<frozen_buffer<In>...> in_;
};

/// Makes a buffer without a block. Its first access has its bytes made. Throws what make() throws.
inline raw_handle make_evicted_buffer(lane& l, std::size_t bytes, any_store const& named,
                                      std::unique_ptr<derivation> how) {
    constexpr char const* call = "make a derived buffer in batch ";
    batch_record&         b    = *l.batch;
    if (b.closed()) throw_failure({errc::batch_ended, &b}, call);
    supply_guard const s(b, named);
    if (!s) throw_failure({errc::memory_full, &b, sizeof(supply)}, call);
    if (bytes == absurd_bytes)
        throw_store_error(make_error_code(errc::store_full), "make a derived buffer in", s->store);
    promise_guard const room(b, *s);  // keeps the supply while the batch lives
    if (!room) throw_failure({errc::memory_full, &b, sizeof(block)}, call);
    buffer_record without{*s, {0, bytes}, true};
    without.set_evicted(true);
    without.set_made_by(*how);
    raw_handle const             h    = make_buffer_record(l, without);
    [[maybe_unused]] auto* const kept = how.release();
    return h;
}

template <class T, class F, class... In>
buffer<T> make_derived_in(lane& l, std::size_t n, any_store const& store, F f, frozen_buffer<In> const&... in) {
    if (l.batch->closed()) throw_failure({l.batch->why_closed(), l.batch}, "make a derived buffer in batch ");
    registry_core& r   = *l.batch->registry.load(std::memory_order_relaxed);
    auto           how = std::make_unique<derivation_of<T, F, In...>>(n, std::move(f), in...);
    (add_input(r, *how, handle_access::raw(in)), ...);
    std::size_t const bytes = array_bytes(n, sizeof(T));
    return handle_access::make_buffer<buffer<T>>(make_evicted_buffer(l, bytes, store, std::move(how)), n);
}

/// Returns the registry of a live buffer. Throws stale_handle.
inline registry_core& registry_of(raw_handle b) {
    if (!is_alive(b)) throw_stale(b);
    return static_cast<buffer_record const*>(b.pointer)->from->registry;
}

}  // namespace detail

/// A buffer, or a frozen view of one.
template <class B>
concept derivable = detail::is_buffer_handle<B> && requires(B const& b) { frozen(b); };

/// Makes a buffer of `n` T in this thread's current batch that remembers its derivation, `f(out, inputs...)`: with
/// std::span<T> and std::span<In const>..., or with buffer<T> and frozen_buffer<In>... if `f` takes these. The
/// first access calls `f`, and so does the first after an eviction: once for all threads that need the bytes, on
/// one thread at a time, with no lock held. What `f` throws reaches all of these, and the next access tries again.
/// `f` lives as long as the buffer, and must not read what it makes.
///
/// Each input is shared with the derivation, so it lives as long as the buffer. An evicted input is made again
/// first, along chains of any length. An eviction loses what was written to the buffer itself.
///
/// `store`: as for make_buffer. Throws as make(), and as share() for the inputs. An access throws also what `f`
/// throws and what make_buffer() would.
template <class T, class F, derivable... In>
buffer<T> make_derived(std::size_t n, any_store const& store, F f, In const&... inputs) {
    return detail::make_derived_in<T>(detail::current_lane(), n, store, std::move(f), frozen(inputs)...);
}
/// As make_derived(n, store, f, inputs...), in the batch's own store.
template <class T, class F, derivable... In>
    requires(!std::is_convertible_v<F, any_store const&>)
buffer<T> make_derived(std::size_t n, F f, In const&... inputs) {
    return detail::make_derived_in<T>(detail::current_lane(), n, any_store{}, std::move(f), frozen(inputs)...);
}

/// Drops the bytes of a buffer and keeps the buffer: its block is the store's again, and its batch's limits no
/// longer count it. The next access has the derivation make the bytes again, or throws errc::evicted if there is
/// none; a write of all of them makes them anew. No thread may use the buffer meanwhile. Does nothing if the
/// buffer is evicted already. Throws stale_handle, not_restorable, batch_ended, not_owner if its store keeps it by
/// name, and object_pinned if a pin holds it or a derivation is reading it.
template <class T>
void evict(buffer<T> const& b) {
    detail::raw_handle const h   = detail::handle_access::raw(b);
    detail::failure const    why = detail::evict_one(detail::registry_of(h), h);
    if (why) detail::throw_failure(why, "evict a buffer ");
}

/// Selects evict(b, recursive).
struct recursive_t {
    explicit recursive_t() = default;
};
inline constexpr recursive_t recursive{};

/// Evicts a buffer and what it was made from, through all derivations: each input that has a derivation itself,
/// unless another buffer that has its bytes was made from it too. What cannot be evicted stays. Throws as
/// evict(b).
template <class T>
void evict(buffer<T> const& b, recursive_t) {
    detail::raw_handle const h   = detail::handle_access::raw(b);
    detail::failure const    why = detail::evict_with_inputs(detail::registry_of(h), h);
    if (why) detail::throw_failure(why, "evict a buffer ");
}

}  // namespace tenure

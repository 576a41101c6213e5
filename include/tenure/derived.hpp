// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tenure/buffer.hpp>
#include <tenure/current.hpp>
#include <tenure/detail/base/sizes.hpp>
#include <tenure/detail/buffers/derive.hpp>
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

template <class T, class F, class... In>
class derivation_of final : public derivation_maker {
public:
    using on_elements                 = std::is_invocable<F&, std::span<T>, std::span<In const>...>;
    static constexpr bool by_elements = on_elements::value;
    static_assert(std::disjunction_v<on_elements, std::is_invocable<F&, buffer<T>, frozen_buffer<In>...>>,
                  "make_derived<T>(n, f, inputs...) calls f(span<T> out, span<In const> in...), or "
                  "f(buffer<T> out, frozen_buffer<In> in...)");

    derivation_of(std::size_t n, F f, frozen_buffer<In> const&... in) : size_(n), make_(std::move(f)), in_(in...) {}

private:
    void run(derivation_target const& to) override {
        std::apply(
            [&](auto const&... in) {
                if constexpr (by_elements) run_on_elements(to, input_elements<In>(in)...);
                else {
                    lent_buffer const out(to);
                    make_(handle_access::make_buffer<buffer<T>>(out.raw(), size_), in...);
                }
            },
            in_);
    }

    template <class... E>
    void run_on_elements(derivation_target const& to, E const&... in) {
        if (result<std::byte*> const at = to.store.try_address(to.into)) {
            make_(std::span<T>(reinterpret_cast<T*>(*at), size_), std::span<In const>(in)...);
            return;
        }
        staging<T> const   memory(size_);
        std::span<T> const out(memory.data(), size_);
        make_(out, std::span<In const>(in)...);
        if (auto const done = to.store.write(to.into, 0, std::as_bytes(out)); !done)
            throw_not_written(done.error(), to.store);
    }

    std::size_t                      size_;
    F                                make_;
    std::tuple<frozen_buffer<In>...> in_;
};

template <class T, class F, class... In>
buffer<T> make_derived_in(lane& l, std::size_t n, any_store const& store, F f, frozen_buffer<In> const&... in) {
    std::array<raw_handle, sizeof...(In)> const inputs{handle_access::raw(in)...};
    auto              maker = std::make_unique<derivation_of<T, F, In...>>(n, std::move(f), in...);
    std::size_t const bytes = array_bytes(n, sizeof(T));
    raw_handle const  h     = make_derived_buffer(l, bytes, buffer_alignment<T>, store, std::move(maker), inputs);
    return handle_access::make_buffer<buffer<T>>(h, n);
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
    detail::failure const why = detail::evict_buffer(detail::handle_access::raw(b), false);
    if (why) detail::throw_failure(why, "evict a buffer ");
}

/// Evicts a buffer and what it was made from, through all derivations: each input that has a derivation itself,
/// unless another buffer that has its bytes was made from it too. What cannot be evicted stays. Throws as
/// evict(b).
template <class T>
void evict(buffer<T> const& b, recursive_t) {
    detail::failure const why = detail::evict_buffer(detail::handle_access::raw(b), true);
    if (why) detail::throw_failure(why, "evict a buffer ");
}

}  // namespace tenure

#ifndef TENURE_SEPARATE
#include <tenure/impl/derived.ipp>
#endif

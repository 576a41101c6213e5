// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/sizes.hpp>
#include <tenure/detail/base/word.hpp>
#include <tenure/detail/batch/finalizer.hpp>
#include <tenure/detail/batch/lane.hpp>
#include <tenure/detail/objects/bump.hpp>
#include <tenure/detail/objects/registered.hpp>
#include <tenure/only_memory.hpp>

namespace tenure::detail {

/// Makes the resource of a lane that has none. Throws batch_ended, std::bad_alloc.
TENURE_DECL std::pmr::memory_resource* make_resource(lane& l);

/// Returns the resource for containers in the lane, the same one until the batch ends or is cleared. Throws
/// batch_ended, std::bad_alloc.
inline std::pmr::memory_resource* resource_of(lane& l) {
    if (auto* const made = l.resource.load(std::memory_order_relaxed)) [[likely]]
        return made;
    return make_resource(l);
}

/// Returns resource_of() the lane of a batch whose guard is this thread's. Null for another lane, which a thread
/// has for a while only; if the batch is over; if there is no memory for it.
TENURE_DECL std::pmr::memory_resource* resource_of_own(lane& l);

/// The layout of a T in a slab: behind an entry if it has a destructor to run.
template <class T, bool Entry = !std::is_trivially_destructible_v<T>>
struct layout {
    static constexpr bool        has_entry = Entry;
    static constexpr std::size_t before    = has_entry ? sizeof(entry) : 0;
    static constexpr std::size_t alignment = alignof(T) < 8 ? 8 : alignof(T);
    static constexpr std::size_t bytes     = round_extent(before + sizeof(T));
    static_assert(alignof(T) <= largest_alignment, "objects are aligned to 1 GiB at most");
};

template <class T>
T* object_after(entry* e) noexcept {
    return std::launder(reinterpret_cast<T*>(object_at(to_address(e), sizeof(entry), alignof(T))));
}

template <class T>
T* elements_after(entry* e) noexcept {
    return std::launder(reinterpret_cast<T*>(object_at(to_address(e), sizeof(array_entry), alignof(T))));
}

template <class T>
void destroy_object(entry* e) noexcept {
    std::destroy_at(object_after<T>(e));
}

template <class T>
void destroy_array(entry* e) noexcept {
    std::size_t n     = static_cast<array_entry*>(e)->count;
    T* const    first = elements_after<T>(e);
    while (n > 0) std::destroy_at(first + --n);
}

/// Stands for a constructor's arguments, or for the elements of an array: default-initialisation, which writes
/// nothing where a T has no constructor of its own.
struct for_overwrite {
    template <class U>
    static void fill(U* first, std::size_t n) {
        std::uninitialized_default_construct_n(first, n);
    }
};
/// As for_overwrite, for arrays that make() makes.
struct for_use {
    template <class U>
    static void fill(U* first, std::size_t n) {
        std::uninitialized_value_construct_n(first, n);
    }
};

/// Copies of `n` elements, and `n` copies of one.
template <class E>
struct copies_of {
    E const* from;

    template <class U>
    void fill(U* first, std::size_t n) const {
        std::uninitialized_copy_n(from, n, first);
    }
};
template <class E>
copies_of(E const*) -> copies_of<E>;

template <class E>
struct copies_of_one {
    E const& from;

    template <class U>
    void fill(U* first, std::size_t n) const {
        std::uninitialized_fill_n(first, n, from);
    }
};

template <class U, class... Args>
inline constexpr bool constructs_quietly = std::is_nothrow_constructible_v<U, Args...>;
template <class U>
inline constexpr bool constructs_quietly<U, for_overwrite> = std::is_nothrow_default_constructible_v<U>;

template <class U, class... Args>
[[gnu::always_inline]] inline U* construct(void* at, Args&&... args) {
    if constexpr ((std::is_same_v<Args, for_overwrite> || ...)) return ::new (at) U;
    else return ::new (at) U(std::forward<Args>(args)...);
}

template <class T>
void drop_object(entry* e) noexcept {
    if constexpr (is_registered<T>) object_after<T>(e)->drop();
}

/// Returns what is to be known of a T, or of an array of them.
template <class T>
constexpr finalizer finalizer_for(void (*destroy)(entry*) noexcept, bool is_array = false) noexcept {
    return {
        .destroy    = destroy,
        .type       = is_array ? &identity_of<T[]>() : &identity_of<typename told_as<T>::type>(),
        .restorable = restorable<T>,
        .phase      = phase_of<T>,
        .is_array   = is_array,
        .align_log  = static_cast<std::uint8_t>(std::countr_zero(layout<T>::alignment)),
        .size = is_object<T> ? static_cast<std::uint32_t>(std::min<std::size_t>(sizeof(T), ~std::uint32_t{0})) : 0,
        .drop = is_registered<T> ? &drop_object<T> : nullptr};
}

/// With an entry, and without.
template <class T>
inline constexpr finalizer object_finalizer = finalizer_for<T>(&destroy_object<T>);
template <class T>
inline constexpr finalizer array_finalizer = finalizer_for<T>(&destroy_array<T>, true);
template <class T>
inline constexpr finalizer bare_object = finalizer_for<T>(nullptr);
template <class T>
inline constexpr finalizer bare_array = finalizer_for<T>(nullptr, true);

/// What is known of an object by a handle<T> alone.
template <class T>
inline constexpr finalizer const& named_as = bare_object<std::remove_cv_t<T>>;
template <class T>
inline constexpr finalizer const& named_as<T[]> = bare_array<std::remove_cv_t<T>>;

/// Memory for an object: in a slab if it is small, else a run of its own.
struct space {
    bytes_at at;
    void*    pointer = nullptr;  ///< behind the entry; null if refused
    word_t   word    = 0;
    unit*    large   = nullptr;

    entry* header() const noexcept { return reinterpret_cast<entry*>(at.begin); }
};

inline void register_entry(lane& l, space const& s, finalizer const& f) noexcept {
    entry* const e = s.header();
    e->state.store(reinterpret_cast<std::uintptr_t>(&f), std::memory_order_relaxed);
    link_front(l.entries, l.oldest_entry, e);
}

/// As register_entry(), in the list of the call's phase.
TENURE_DECL void register_in_phase(lane& l, space const& s, finalizer const& f) noexcept;

template <class Refusal>
[[gnu::always_inline]] inline space allocate_small(lane& l, std::size_t before, std::size_t bytes,
                                                   std::size_t alignment, finalizer const* what, Refusal refusal) {
    space s{bump_or<one_object>(l, before, bytes, alignment, what, refusal)};
    if (!s.at.begin) [[unlikely]]
        return {};
    s.pointer = to_pointer(object_at(s.at.begin, before, alignment));
    s.word    = word_of_small(l, s.at, before, alignment);
    unpoison(to_pointer(s.at.begin), s.at.bytes);
    return s;
}

/// A run of its own. A null pointer: refused, see `why`.
space allocate_large(lane& l, std::size_t before, std::size_t bytes, std::size_t alignment, finalizer const& what,
                     failure& why);

/// Takes back the memory of an object whose constructor threw.
[[gnu::cold]] TENURE_DECL void forget(lane& l, space const& s) noexcept;

/// Takes back the memory unless the constructor returns, after which `lane_of` is set to null.
struct construction_guard {
    lane*        lane_of;
    space const& where;

    ~construction_guard() {
        if (lane_of) forget(*lane_of, where);
    }
};

[[gnu::always_inline]] inline space allocate_large(lane& l, std::size_t before, std::size_t bytes,
                                                   std::size_t alignment, finalizer const& what,
                                                   report_to refusal) {
    return allocate_large(l, before, bytes, alignment, what, refusal.why);
}
[[gnu::always_inline]] inline space allocate_large(lane& l, std::size_t before, std::size_t bytes,
                                                   std::size_t alignment, finalizer const& what, throw_it) {
    failure     why;
    space const s = allocate_large(l, before, bytes, alignment, what, why);
    if (why) throw_failure(why, "make in batch ");
    return s;
}

/// Whether that is memory of the batch, which lives.
TENURE_DECL bool is_resource_of_batch(batch_record const& b, std::pmr::memory_resource const* r) noexcept;

/// Returns whether `r` gives memory of the lane's batch, from whichever of its lanes.
inline bool is_resource_of(lane const& l, std::pmr::memory_resource const* r) noexcept {
    return r == l.resource.load(std::memory_order_relaxed) ? r != nullptr : is_resource_of_batch(*l.batch, r);
}

/// A type that tells its memory resource, as pmr containers do.
template <class T>
concept knows_resource = requires(T const& t) {
    { t.get_allocator().resource() } -> std::same_as<std::pmr::memory_resource*>;
};

/// Whether an argument is a pointer to a memory resource.
template <class Arg>
inline constexpr bool is_resource_pointer =
    std::is_pointer_v<std::remove_cvref_t<Arg>> && std::is_convertible_v<Arg, std::pmr::memory_resource*>;
template <class Arg>
concept names_resource = is_resource_pointer<Arg> || requires(std::remove_cvref_t<Arg> const& a) {
    { a.resource() } noexcept -> std::same_as<std::pmr::memory_resource*>;
};

template <class Arg>
bool names_resource_of(lane const& l, Arg const& arg) noexcept {
    if constexpr (is_resource_pointer<Arg const&>) return is_resource_of(l, arg);
    else if constexpr (names_resource<Arg>) return is_resource_of(l, arg.resource());
    else return false;
}

/// Makes one U in memory of layout L. Returns a null pointer if refused; `refusal` has the failure then. Passes on
/// what the constructor throws, with nothing registered. `Bound` says that the object refers to memory of its
/// batch.
template <class U, class L, bool Bound, class Refusal, class... Args>
[[gnu::always_inline]] inline std::pair<U*, word_t> make_laid_out(lane& l, Refusal refusal, Args&&... args) {
    space                      s;
    constexpr finalizer const& what = L::has_entry ? object_finalizer<U> : bare_object<U>;
    if constexpr (L::bytes + L::alignment <= largest_small) {
        s = allocate_small(l, L::before, L::bytes, L::alignment, &what, refusal);
    } else {
        s = allocate_large(l, L::before, L::bytes, L::alignment, what, refusal);
    }
    if (!s.pointer) [[unlikely]]
        return {};
    [[maybe_unused]] bool bound = Bound;  // refers to memory of its batch, as far as it or an argument tells
    if constexpr (!Bound && !knows_resource<U> && (names_resource<Args> || ...))
        bound = (names_resource_of(l, args) || ...);  // before the constructor moves from them
    U* object = nullptr;
    if constexpr (constructs_quietly<U, Args...>) {
        object = construct<U>(s.pointer, std::forward<Args>(args)...);
    } else {
        construction_guard undo{&l, s};
        object       = construct<U>(s.pointer, std::forward<Args>(args)...);
        undo.lane_of = nullptr;
    }
    if constexpr (phase_of<U> != release_phase::in_order) register_in_phase(l, s, object_finalizer<U>);
    else if constexpr (L::has_entry) register_entry(l, s, object_finalizer<U>);
    if constexpr (!Bound && knows_resource<U>) bound = is_resource_of(l, object->get_allocator().resource());
    if constexpr (Bound || knows_resource<U> || (names_resource<Args> || ...))
        if (bound && !s.large) s.word = bound_word(s.word, s.at.bytes);
    return {object, s.word};
}

/// Returns whether the last argument is the lane's own resource, or an allocator of it.
template <class... Args>
bool takes_resource_of(lane const& l, Args const&... args) noexcept {
    if constexpr (sizeof...(Args) > 0) {
        auto const& last = std::get<sizeof...(Args) - 1>(std::tie(args...));
        if constexpr (std::is_convertible_v<decltype(last), std::pmr::polymorphic_allocator<>>)
            if (auto const* const own = l.resource.load(std::memory_order_relaxed))
                return std::pmr::polymorphic_allocator<>(last).resource() == own;
    }
    return false;
}

/// Makes one U that takes an allocator: its lane's if that has a guard of this thread, else the default one, which
/// is said only where it must be.
template <class U, class Refusal, class... Args>
std::pair<U*, word_t> make_with_allocator(lane& l, Refusal refusal, Args&&... args) {
    using allocator         = std::pmr::polymorphic_allocator<>;
    constexpr bool is_first = std::is_constructible_v<U, std::allocator_arg_t, allocator, Args...>;

    auto const make = [&]<class L, bool Bound>(allocator a) {
        if constexpr (is_first)
            return make_laid_out<U, L, Bound>(l, refusal, std::allocator_arg, a, std::forward<Args>(args)...);
        else return make_laid_out<U, L, Bound>(l, refusal, std::forward<Args>(args)..., a);
    };
    if (auto* const own = resource_of_own(l))
        return make.template operator()<layout<U, !only_memory<U>>, true>(own);
    if constexpr (std::is_constructible_v<U, Args...>)
        return make_laid_out<U, layout<U>, false>(l, refusal, std::forward<Args>(args)...);
    else return make.template operator()<layout<U>, false>(allocator());
}

/// A type whose objects say where their memory comes from by a polymorphic_allocator. (Not std::uses_allocator:
/// that is true of each std::tuple and std::promise, of which the one has no memory, and the other shares it.)
template <class U>
concept has_allocator = std::is_convertible_v<std::pmr::polymorphic_allocator<>, typename U::allocator_type>;

/// Whether a U made of these arguments is yet to be told where its memory comes from, and can be, as in
/// uses-allocator construction ([allocator.uses.construction]). One that is moved from another keeps that memory.
template <class U, class... Args>
consteval bool lacks_allocator() {
    using allocator = std::pmr::polymorphic_allocator<>;
    if constexpr (!has_allocator<U> || (sizeof...(Args) == 1 && (std::is_same_v<Args, U> || ...))) return false;
    else if constexpr (std::is_constructible_v<U, std::allocator_arg_t, allocator, Args...>) return true;
    else if constexpr (sizeof...(Args) == 0) return std::is_constructible_v<U, allocator>;
    else
        return !std::is_convertible_v<std::tuple_element_t<sizeof...(Args) - 1, std::tuple<Args...>>, allocator> &&
               std::is_constructible_v<U, Args..., allocator>;
}

/// Makes one T in the layout that it needs: without an entry if its destructor only frees memory and that is the
/// lane's. One that takes a polymorphic_allocator, and is given none, is given one. Otherwise as make_laid_out().
template <class T, class Refusal, class... Args>
[[gnu::always_inline]] inline std::pair<T*, word_t> make_object(lane& l, Refusal refusal, Args&&... args) {
    using U = std::remove_cv_t<T>;
    if constexpr (lacks_allocator<U, Args...>()) {
        return make_with_allocator<U>(l, refusal, std::forward<Args>(args)...);
    } else {
        if constexpr (only_memory<U> && !std::is_trivially_destructible_v<U>)
            if (takes_resource_of(l, args...))
                return make_laid_out<U, layout<U, false>, true>(l, refusal, std::forward<Args>(args)...);
        return make_laid_out<U, layout<U>, false>(l, refusal, std::forward<Args>(args)...);
    }
}

/// Makes `n` elements, which `elements.fill()` constructs; otherwise as make_object().
template <class T, class Refusal, class Elements>
std::pair<T*, word_t> make_array(lane& l, Refusal refusal, std::size_t n, Elements elements) {
    using U                         = std::remove_cv_t<T>;
    constexpr bool        ends      = !std::is_trivially_destructible_v<U>;
    constexpr std::size_t before    = ends ? sizeof(array_entry) : 0;
    constexpr std::size_t alignment = alignof(U) < 8 ? 8 : alignof(U);
    constexpr auto const& what      = ends ? array_finalizer<U> : bare_array<U>;
    std::size_t const     bytes     = round_extent(before + array_bytes(n, sizeof(U)));
    space const s = bytes + alignment <= largest_small ? allocate_small(l, before, bytes, alignment, &what, refusal)
                                                       : allocate_large(l, before, bytes, alignment, what, refusal);
    if (!s.pointer) return {};
    auto* const        first = static_cast<U*>(s.pointer);
    construction_guard undo{&l, s};
    elements.fill(first, n);
    undo.lane_of = nullptr;
    if constexpr (ends) {
        static_cast<array_entry*>(s.header())->count = n;
        register_entry(l, s, array_finalizer<U>);
    }
    return {first, s.word};
}

}  // namespace tenure::detail

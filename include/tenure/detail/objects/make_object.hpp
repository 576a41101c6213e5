// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <new>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <tenure/detail/base/sizes.hpp>
#include <tenure/detail/objects/slab.hpp>
#include <tenure/only_memory.hpp>

namespace tenure::detail {

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

template <class T>
inline constexpr finalizer object_finalizer{&destroy_object<T>, &identity_of<T>(), restorable<T>};
template <class T>
inline constexpr finalizer array_finalizer{&destroy_array<T>, &identity_of<T[]>(), restorable<T>};

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
    link_front(l.entries, e);
}

template <class Refusal>
[[gnu::always_inline]] inline space allocate_small(lane& l, std::size_t before, std::size_t bytes,
                                                   std::size_t alignment, Refusal refusal) {
    space s{bump_or<one_object>(l, before, bytes, alignment, refusal)};
    if (!s.at.begin) [[unlikely]]
        return {};
    s.pointer = to_pointer(object_at(s.at.begin, before, alignment));
    s.word    = l.word | (before ? header_flag : 0) | encode_start(s.at.begin) | encode_extent(s.at.bytes);
    unpoison(to_pointer(s.at.begin), s.at.bytes);
    return s;
}

inline space allocate_large(lane& l, std::size_t before, std::size_t bytes, std::size_t alignment, failure& why) {
    unit* const u = take_large(*l.batch, l, before, bytes, alignment, 1, why);
    if (!u) return {};
    std::uintptr_t const begin = u->address + u->large_offset.load(std::memory_order_relaxed);
    unpoison(to_pointer(begin), bytes);
    word_t const generation = generation_of(table_word(u->address).load(std::memory_order_relaxed));
    return {{begin, bytes}, to_pointer(begin + before), whole_word(generation) | (before ? header_flag : 0), u};
}

/// Takes back the memory of an object whose constructor threw.
TENURE_COLD inline void forget(lane& l, space const& s) noexcept {
    batch_record& b = *l.batch;
    if (s.large) {
        unlink_large(b, s.large);
        b.books.large_made.add(~std::uint64_t{0}, ~std::uint64_t{s.at.bytes} + 1, false);  // it was never made
        refund_use(b, s.at.bytes);
        give_large(s.large);
        return;
    }
    std::uint64_t const cursor = l.cursor.load(std::memory_order_relaxed);
    if ((cursor & cursor_address) == s.at.begin + s.at.bytes && cursor >= one_object) {
        poison(to_pointer(s.at.begin), s.at.bytes);
        l.cursor.store(cursor - s.at.bytes - one_object, std::memory_order_relaxed);
        return;
    }
    // The constructor made other objects behind this one.
    extent const  x{s.at.begin, s.at.bytes, nullptr, nullptr};
    retired_units empty;
    {
        object_lock const guard(x);
        mark_range_dead(b, x.begin, x.begin + x.bytes, empty);
    }
    empty.give();
    b.books.add(&ledger::freed, 0, x.bytes, b.is_here());
    refund_use(b, x.bytes);
    moving_guard const moving(l);
    add_relaxed<std::uint64_t>(l.objects_before, ~std::uint64_t{0});  // it was never made
}

inline space allocate_large(lane& l, std::size_t before, std::size_t bytes, std::size_t alignment,
                            report_to refusal) {
    return allocate_large(l, before, bytes, alignment, refusal.why);
}
inline space allocate_large(lane& l, std::size_t before, std::size_t bytes, std::size_t alignment, throw_it) {
    failure     why;
    space const s = allocate_large(l, before, bytes, alignment, why);
    if (why) throw_failure(why, "make in batch ");
    return s;
}

/// Returns whether `r` is a lane's resource, of whatever batch.
inline bool is_lane_resource(std::pmr::memory_resource const& r) noexcept {
#ifdef __cpp_rtti
    return typeid(r) == typeid(lane_resource<lane>);
#else
    // Objects with virtual functions begin with a pointer that tells their types apart (Itanium C++ ABI).
    static lane                      nobodys;
    static lane_resource<lane> const sample(nobodys, 0, 0);
    return std::memcmp(static_cast<void const*>(&r), static_cast<void const*>(&sample), sizeof(void*)) == 0;
#endif
}

TENURE_SLOW inline bool is_resource_of_batch(batch_record const& b, std::pmr::memory_resource const* r) noexcept {
    if (!r || !is_lane_resource(*r)) return false;
    return static_cast<lane_resource<lane> const*>(r)->is_of(b);
}

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
/// An argument that a constructor may take memory from.
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
    space s;
    if constexpr (L::bytes + L::alignment <= largest_small) {
        s = allocate_small(l, L::before, L::bytes, L::alignment, refusal);
    } else {
        s = allocate_large(l, L::before, L::bytes, L::alignment, refusal);
    }
    if (!s.pointer) [[unlikely]]
        return {};
    [[maybe_unused]] bool bound = Bound;  // refers to memory of its batch, as far as it or an argument tells
    if constexpr (!Bound && !knows_resource<U> && (names_resource<Args> || ...))
        bound = (names_resource_of(l, args) || ...);  // before the constructor moves from them
    U* object = nullptr;
    if constexpr (std::is_nothrow_constructible_v<U, Args...>) {
        object = ::new (s.pointer) U(std::forward<Args>(args)...);
    } else {
        struct guard {
            lane*        l;
            space const& s;
            ~guard() {
                if (l) forget(*l, s);
            }
        } undo{&l, s};
        object = ::new (s.pointer) U(std::forward<Args>(args)...);
        undo.l = nullptr;
    }
    if constexpr (L::has_entry) register_entry(l, s, object_finalizer<U>);
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

/// Makes one T in the layout that it needs: without an entry if its destructor only frees memory and that is the
/// lane's. Otherwise as make_laid_out().
template <class T, class Refusal, class... Args>
[[gnu::always_inline]] inline std::pair<T*, word_t> make_object(lane& l, Refusal refusal, Args&&... args) {
    using U = std::remove_cv_t<T>;
    if constexpr (only_memory<U> && !std::is_trivially_destructible_v<U>) {
        if (takes_resource_of(l, args...))
            return make_laid_out<U, layout<U, false>, true>(l, refusal, std::forward<Args>(args)...);
    }
    return make_laid_out<U, layout<U>, false>(l, refusal, std::forward<Args>(args)...);
}

/// Makes `n` value-initialised elements; otherwise as make_object().
template <class T, class Refusal>
std::pair<T*, word_t> make_array(lane& l, Refusal refusal, std::size_t n) {
    using U                         = std::remove_cv_t<T>;
    constexpr bool        ends      = !std::is_trivially_destructible_v<U>;
    constexpr std::size_t before    = ends ? sizeof(array_entry) : 0;
    constexpr std::size_t alignment = alignof(U) < 8 ? 8 : alignof(U);
    std::size_t const     bytes     = round_extent(before + array_bytes(n, sizeof(U)));
    space const s = bytes + alignment <= largest_small ? allocate_small(l, before, bytes, alignment, refusal)
                                                       : allocate_large(l, before, bytes, alignment, refusal);
    if (!s.pointer) return {};
    auto* const first = static_cast<U*>(s.pointer);
    struct guard {
        lane*        l;
        space const& s;
        ~guard() {
            if (l) forget(*l, s);
        }
    } undo{&l, s};
    std::uninitialized_value_construct_n(first, n);
    undo.l = nullptr;
    if constexpr (ends) {
        static_cast<array_entry*>(s.header())->count = n;
        register_entry(l, s, array_finalizer<U>);
    }
    return {first, s.word};
}

/// Stands in the slab for an object made elsewhere, which the deleter ends.
template <class T, class Deleter>
struct adopted {
    T*                            pointer;
    [[no_unique_address]] Deleter deleter;
    cell*                         place;

    ~adopted() {
        give_cell(*place);
        deleter(pointer);
    }
};

/// Stands in the slab for a deferred call.
template <class F>
struct deferred {
    [[no_unique_address]] F call;
    ~deferred() { call(); }
};

}  // namespace tenure::detail

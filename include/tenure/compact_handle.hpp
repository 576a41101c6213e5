// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>

#include <tenure/detail/objects/make_object.hpp>
#include <tenure/detail/space/compact_window.hpp>
#include <tenure/error.hpp>
#include <tenure/handle.hpp>
#include <tenure/raise.hpp>
#include <tenure/result.hpp>

namespace tenure {

template <class T>
class compact_handle;

namespace detail {

/// A compact handle without its type. `generation`: the low bits of the one in a handle's word, and whether the
/// object is bound to its batch. What else that word tells follows from the type. In two halves, because an index
/// that is loaded as 32 bits needs no further instruction to become an address.
struct alignas(8) compact_word {
    std::uint32_t granule;     ///< from the window's base on; 0: null
    std::uint32_t generation;  ///< [bound 1] [generation 31]

    friend auto operator<=>(compact_word const&, compact_word const&) = default;
};
inline constexpr std::uint32_t compact_bound           = std::uint32_t{1} << 31;
inline constexpr word_t        compact_generation_mask = compact_bound - 1;
inline constexpr word_t        layout_mask             = (word_t{1} << generation_shift) - 1;

/// What the words of all T have in common below the generation, as make_object() gives them.
template <class T, bool Entry = !std::is_trivially_destructible_v<T>>
constexpr word_t layout_word() noexcept {
    using L = layout<T, Entry>;
    static_assert(alignof(T) <= 8,
                  "a compact_handle cannot name a T that is aligned to more than 8 bytes: where "
                  "its memory begins differs from one to the next; use a handle");
    constexpr word_t header = Entry ? header_flag : 0;
    if (L::bytes + L::alignment > largest_small) return header;
    return header | encode_extent(L::bytes) | encode_offset(L::before);
}

/// The same of those that are bound. One whose destructor only frees its batch's memory has no entry then.
template <class T>
constexpr word_t bound_layout_word() noexcept {
    constexpr bool entry = !std::is_trivially_destructible_v<T> && !only_memory<T>;
    using L              = layout<T, entry>;
    if (L::bytes + L::alignment > largest_small) return layout_word<T, entry>();
    return bound_word(layout_word<T, entry>(), L::bytes);
}

[[gnu::always_inline]] inline std::uintptr_t compact_address(compact_word c) noexcept {
    return compact_reach.base + (std::size_t{c.granule} << granule_shift);
}

[[gnu::always_inline]] inline word_t compact_table_word(compact_word c) noexcept {
    return compact_reach.words[c.granule >> (unit_shift - granule_shift)].load(std::memory_order_relaxed);
}

/// Returns the handle that a compact one was made of. Of the generations that have its low bits it is the last up
/// to the unit's own.
inline raw_handle expand_compact(compact_word c, word_t layout) noexcept {
    if (c.granule == 0) return {nullptr, 0};
    word_t const now = generation_of(compact_table_word(c));
    word_t const ago = (now - c.generation) & compact_generation_mask;
    return {to_pointer(compact_address(c)), whole_word((now - ago) & generation_mask) | layout};
}

/// is_alive() where the table does not vouch for all handles of a unit.
TENURE_SLOW inline bool compact_alive_guarded(compact_word c, word_t layout) noexcept {
    return c.granule != 0 && is_alive(expand_compact(c, layout));
}

/// The check of every access: one hot load and a compare, of 31 bits and the flag that the unit is whole.
[[gnu::always_inline]] inline bool compact_is_whole(compact_word c) noexcept {
    constexpr word_t compared = whole_flag | compact_generation_mask << generation_shift;
    return ((word_t{c.generation} << generation_shift ^ compact_table_word(c)) & compared) == whole_flag;
}

/// Returns why an object with that handle has no compact one, or null. `plain`, `bound`: the words of its type.
inline char const* why_not_compact(raw_handle h, word_t plain, word_t bound) noexcept {
    word_t const of = h.word & layout_mask;
    if (h.word & cell_flag) return "compact handle of an adopted object, which lies outside the batch's memory";
    if (of != plain && of != bound) return "compact handle of an object that was made as another type";
    if (!reserve_compact_window()) return "compact handle, where the system had no 32 GiB of addresses for them";
    if (to_address(h.pointer) - compact_reach.base >= compact_bytes)
        return "compact handle of an object outside the 32 GiB of addresses that these reach";
    return nullptr;
}

[[noreturn, gnu::cold]] inline void refuse_compact(char const* why) { raise(error(errc::not_compactable, why)); }

}  // namespace detail

/// A handle<T> in 8 bytes, for graphs: an edge takes what a pointer does. It is made of a handle, which it converts
/// to again; it is copied, checked and used as that is, and as cheap.
///
/// It names what make<T>() made as just that type, within the process's window of 32 GiB of addresses, which lies
/// where the system maps memory. Making it of another (an adopted object, a Derived as its Base, what lies outside
/// the window) is refused with not_compactable: use a handle for that. A T is aligned to 8 bytes at most. It may be
/// incomplete where a compact_handle<T> is only named or copied.
///
/// A stale one is found by 31 bits of the generation of its 64 KiB of memory; a handle has 37. The end of a batch
/// that had this memory counts it up by one. So up to 2,147,483,647 such ends after its own, every access says
/// stale_handle, as with a handle. With each 2,147,483,648th end the bits come round: until the next one, a compact
/// handle that was stale is taken for one of what is there now. A thread that does nothing but open and end batches
/// of one object takes a minute to come there. Keep compact handles in the batch of what they name, or above it for
/// no longer than that; keep a handle where one may be stale for longer.
///
/// Any thread may use any copy, as with a handle.
template <class T>
class compact_handle {
    static_assert(!std::is_array_v<T>,
                  "an array has no compact_handle: its length takes the room; use handle<T[]>");

public:
    using element_type = T;

    compact_handle() noexcept = default;        ///< null: stale from the start
    compact_handle(std::nullptr_t) noexcept {}  // NOLINT(google-explicit-constructor): as a pointer

    /// Throws not_compactable. See try_compact().
    compact_handle(handle<T> const& h) {  // NOLINT(google-explicit-constructor): nothing is lost
        if (char const* const why = set(h)) detail::refuse_compact(why);
    }

    /// Of what can be changed, one of what cannot.
    template <class U>
        requires std::is_same_v<U const, T>
    compact_handle(compact_handle<U> const& other) noexcept : word_(other.word_) {}

    /// Returns the handle, which is stale if this is, whatever becomes of its memory. Cost: a load and some
    /// arithmetic.
    handle<T> expand() const noexcept {
        detail::raw_handle const h = detail::expand_compact(word_, layout());
        return detail::handle_access::make(static_cast<T*>(const_cast<void*>(h.pointer)), h.word);
    }
    operator handle<T>() const noexcept { return expand(); }  // NOLINT(google-explicit-constructor)

    /// Returns the object. Throws stale_handle. Cost: one hot load and a compare.
    [[gnu::always_inline]] T& operator*() const { return *operator->(); }
    [[gnu::always_inline]] T* operator->() const {
        if (!alive()) [[unlikely]]
            detail::throw_stale(detail::expand_compact(word_, layout()), __PRETTY_FUNCTION__);
        return pointer();
    }

    T*   get() const noexcept { return alive() ? pointer() : nullptr; }  ///< null if stale
    bool alive() const noexcept {
        if (detail::compact_is_whole(word_)) [[likely]]
            return true;
        return detail::compact_alive_guarded(word_, layout());
    }

    /// Returns whether it was ever given an object, as handle does.
    explicit operator bool() const noexcept { return word_.granule != 0; }

    /// Returns the pointer without a check. It dangles once the object is freed.
    T* unchecked() const noexcept { return word_.granule ? pointer() : nullptr; }

    /// Has the processor bring the object's first cache line in. A traversal that does this some edges ahead need
    /// not wait for each node. Harmless for one that is null or stale.
    void prefetch() const noexcept { __builtin_prefetch(pointer()); }

    /// Returns the batch that would free the object. Throws stale_handle.
    batch_id owner() const { return expand().owner(); }

    /// Two that were made of one handle are equal. The order is of no meaning, but never changes.
    friend bool operator==(compact_handle const&, compact_handle const&) noexcept  = default;
    friend auto operator<=>(compact_handle const&, compact_handle const&) noexcept = default;

private:
    template <class>
    friend class compact_handle;
    friend std::hash<compact_handle>;
    template <class U>
    friend result<compact_handle<U>> try_compact(handle<U> const& h) noexcept;

    using made = std::remove_cv_t<T>;

    T* pointer() const noexcept { return static_cast<T*>(detail::to_pointer(detail::compact_address(word_))); }

    detail::word_t layout() const noexcept {
        return word_.generation & detail::compact_bound ? detail::bound_layout_word<made>()
                                                        : detail::layout_word<made>();
    }

    /// Returns why not, or null.
    char const* set(handle<T> const& h) noexcept {
        constexpr detail::word_t plain = detail::layout_word<made>();
        detail::raw_handle const from  = detail::handle_access::raw(h);
        if (from.word == 0) return nullptr;
        if (char const* const why = detail::why_not_compact(from, plain, detail::bound_layout_word<made>()))
            return why;
        auto const generation = detail::generation_of(from.word) & detail::compact_generation_mask;
        bool const bound      = (from.word & detail::layout_mask) != plain;
        auto const granule =
            (detail::to_address(from.pointer) - detail::compact_reach.base) >> detail::granule_shift;
        word_ = {static_cast<std::uint32_t>(granule),
                 static_cast<std::uint32_t>(generation) | (bound ? detail::compact_bound : 0)};
        return nullptr;
    }

    detail::compact_word word_{};
};

/// Returns `h` in 8 bytes. Errors: not_compactable. Any thread.
template <class T>
result<compact_handle<T>> try_compact(handle<T> const& h) noexcept {
    compact_handle<T> c;
    if (c.set(h)) return make_error_code(errc::not_compactable);
    return c;
}
/// The same, but throws the error.
template <class T>
compact_handle<T> compact(handle<T> const& h) {
    return h;
}

}  // namespace tenure

template <class T>
struct std::hash<tenure::compact_handle<T>> {
    std::size_t operator()(tenure::compact_handle<T> const& h) const noexcept {
        return std::hash<std::uint64_t>{}(std::uint64_t{h.word_.generation} << 26 ^ h.word_.granule);
    }
};

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace tenure::detail {

/// The ids of a batch's commons, each once, in the order in which the batch joined them, and an index of them by
/// hash. Leaving one makes a hole, which closes when the list grows.
class membership_list {
public:
    struct deleter {
        void operator()(membership_list* l) const noexcept { ::operator delete(l); }
    };
    using owned = std::unique_ptr<membership_list, deleter>;

    /// Returns an empty list, or null if memory is full.
    static owned make(std::size_t room) noexcept {
        room                     = std::bit_ceil(std::max<std::size_t>(room, scanned));
        std::size_t const places = room > scanned ? room * 2 : 0;
        std::size_t const bytes  = sizeof(membership_list) + room * sizeof(std::uint64_t) + places * sizeof(place);
        void* const       p      = ::operator new(bytes, std::nothrow);
        if (!p) return nullptr;
        owned l(::new (p) membership_list(static_cast<place>(room), static_cast<place>(places)));
        std::fill_n(l->index(), places, place{0});
        return l;
    }

    std::size_t room() const noexcept { return room_; }
    std::size_t live() const noexcept { return live_; }
    bool        full() const noexcept { return count_ == room_; }
    bool        has(std::uint64_t id) const noexcept { return find(id) != count_; }

    /// Adds an id. The list must not be full, nor have the id.
    void add(std::uint64_t id) noexcept {
        ids()[count_++] = id;
        ++live_;
        if (places_) *free_place(id) = count_;
    }

    /// Removes an id. Returns false if the list does not have it.
    bool remove(std::uint64_t id) noexcept {
        place const at = find(id);
        if (at == count_) return false;
        ids()[at] = 0;
        --live_;
        return true;
    }

    /// Removes the id that was joined last, and returns it, or 0 if there is none. Not to be mixed with other
    /// calls.
    std::uint64_t pop() noexcept {
        while (count_ > 0)
            if (std::uint64_t const id = ids()[--count_]) return id;
        return 0;
    }

    template <class F>
    void for_each(F f) const {
        for (place i = 0; i < count_; ++i)
            if (ids()[i]) f(ids()[i]);
    }

private:
    using place = std::uint32_t;

    static constexpr std::size_t scanned = 8;  ///< this many are searched without an index

    membership_list(place room, place places) noexcept : room_(room), places_(places) {}

    std::uint64_t*       ids() noexcept { return reinterpret_cast<std::uint64_t*>(this + 1); }
    std::uint64_t const* ids() const noexcept { return reinterpret_cast<std::uint64_t const*>(this + 1); }
    place*               index() noexcept { return reinterpret_cast<place*>(ids() + room_); }
    place const*         index() const noexcept { return reinterpret_cast<place const*>(ids() + room_); }

    place first_place(std::uint64_t id) const noexcept {
        return static_cast<place>((id * 0x9e37'79b9'7f4a'7c15u) >> 32) & (places_ - 1);
    }
    place* free_place(std::uint64_t id) noexcept {
        place at = first_place(id);
        while (index()[at]) at = (at + 1) & (places_ - 1);
        return index() + at;
    }

    /// Returns the place of an id, or count_.
    place find(std::uint64_t id) const noexcept {
        if (!places_) return static_cast<place>(std::find(ids(), ids() + count_, id) - ids());
        for (place at = first_place(id); place const found = index()[at]; at = (at + 1) & (places_ - 1))
            if (ids()[found - 1] == id) return found - 1;
        return count_;
    }

    place room_;
    place places_;  ///< in the index, twice as many as there is room for: some are always free
    place count_ = 0;
    place live_  = 0;
};

}  // namespace tenure::detail

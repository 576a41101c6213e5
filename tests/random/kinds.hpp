// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <tenure/tenure.hpp>

#include "specimens.hpp"

/// The types that random programs make, in one table, and handles to any of them.

/// The library did what it must not.
struct mismatch : std::runtime_error {
    using std::runtime_error::runtime_error;
};

using any_handle = std::variant<tenure::handle<specimens::specimen>, tenure::handle<specimens::specimen const>,
                                tenure::handle<std::uint64_t const>, tenure::handle<std::uint64_t[]>,
                                tenure::handle<specimens::element<8>[]>, tenure::handle<specimens::element<64>[]>,
                                tenure::buffer<std::uint64_t>, tenure::handle<tenure::deferred_call>>;

inline tenure::buffer<std::uint64_t> const* as_buffer(any_handle const& any) {
    return std::get_if<tenure::buffer<std::uint64_t>>(&any);
}

inline bool is_alive(any_handle const& any) {
    return std::visit([](auto const& h) { return h.alive(); }, any);
}

inline tenure::batch_id owner_of(any_handle const& any) {
    return std::visit([](auto const& h) { return h.owner(); }, any);
}

/// Whether an object is what it was made as, by reading all of it.
struct well_read {
    std::uint64_t serial;

    bool operator()(tenure::handle<specimens::specimen const> const& h) const {
        return h->is_intact(serial) && &*h == h.get() && h.get() == h.unchecked();
    }
    bool operator()(tenure::handle<std::uint64_t const> const& h) const {
        return *h == specimens::pattern(serial, 0);
    }
    bool operator()(tenure::handle<std::uint64_t[]> const& h) const {
        return specimens::intact(h.span().data(), h.size(), serial) &&
               h[h.size() - 1] == specimens::pattern(serial, h.size() - 1);
    }
    template <std::size_t Align>
    bool operator()(tenure::handle<specimens::element<Align>[]> const& h) const {
        bool good = h[0].count == h.size();
        for (std::size_t i = 0; i < h.size(); ++i) good = good && h[i].serial == serial && h[i].index == i;
        return good;
    }
    bool operator()(tenure::handle<tenure::deferred_call> const& h) const { return &*h == h.get(); }
    bool operator()(tenure::buffer<std::uint64_t> const& b) const {
        std::vector<std::uint64_t> v(b.size());
        b.read(0, v);
        for (std::size_t i = 0; i < v.size(); ++i)
            if (v[i] != specimens::pattern(serial, i)) return false;
        return true;
    }
};

/// Throws what the handle throws.
inline bool reads_well(any_handle const& any, std::uint64_t serial) {
    return std::visit([read = well_read{serial}](auto const& h) { return read(h); }, any);
}

namespace kinds {

/// Where the free functions make.
struct current_batch {
    template <class T, class... Args>
    tenure::handle<T> make(Args&&... args) {
        return tenure::make<T>(std::forward<Args>(args)...);
    }
    template <class T>
    tenure::buffer<T> make_buffer(std::size_t n, tenure::any_store const& store) {
        return tenure::make_buffer<T>(n, store);
    }
};

inline void require(bool good, char const* what, char const* kind) {
    if (!good) throw mismatch(std::string(what) + ": " + kind);
}

template <class T>
void require_aligned(T const* p, char const* kind) {
    require(reinterpret_cast<std::uintptr_t>(p) % alignof(T) == 0, "made at an address that is not aligned", kind);
}

template <class T, class Place>
any_handle make_one(Place& place, std::uint64_t serial, std::uint32_t) {
    auto const h = place.template make<T>(serial);
    require_aligned(&*h, __PRETTY_FUNCTION__);
    if constexpr (std::is_const_v<T>) return tenure::handle<specimens::specimen const>(h);
    else return tenure::handle<specimens::specimen>(h);
}

template <class Place>
any_handle make_number(Place& place, std::uint64_t serial, std::uint32_t) {
    return place.template make<std::uint64_t const>(specimens::pattern(serial, 0));
}

template <class Place>
any_handle make_container(Place& place, std::uint64_t serial, std::uint32_t) {
    return tenure::handle<specimens::specimen>(place.template make<specimens::container>(serial, place.resource()));
}

/// Mostly a few, at times many, seldom more than a unit full.
inline std::size_t array_size(std::uint32_t amount) {
    std::size_t const most = amount % 64 == 0 ? 20'000 : amount % 8 == 0 ? 1'500 : 12;
    return 1 + (amount >> 6) % most;
}

template <class Place>
any_handle make_numbers(Place& place, std::uint64_t serial, std::uint32_t amount) {
    auto const h = place.template make<std::uint64_t[]>(array_size(amount));
    specimens::for_sample(h.size(), [&](std::size_t i) {
        require(h[i] == 0, "elements are not value-initialised", "std::uint64_t[]");
    });
    specimens::fill(h.span().data(), h.size(), serial);
    return h;
}

template <std::size_t Align, class Place>
any_handle make_elements(Place& place, std::uint64_t serial, std::uint32_t amount) {
    specimens::orders = {.serial = serial};
    auto const n      = array_size(amount);
    auto const h      = place.template make<specimens::element<Align>[]>(n);
    require(h.size() == n, "another size than was asked for", "element[]");
    require_aligned(h.get(), "element[]");
    h[0].count = static_cast<std::uint32_t>(n);
    return h;
}

/// Where buffers and batches may be; the first is none, so the batch's own, or that of the one above it.
inline std::array<tenure::any_store, 3> stores;

inline std::size_t store_of(std::uint32_t amount) { return amount / 3 % stores.size(); }

template <class Place>
any_handle make_buffer(Place& place, std::uint64_t serial, std::uint32_t amount) {
    std::vector<std::uint64_t> v(array_size(amount) - 1);
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = specimens::pattern(serial, i);
    auto const b = place.template make_buffer<std::uint64_t>(v.size(), stores[store_of(amount)]);
    require(b.size() == v.size(), "another size than was asked for", "buffer");
    b.write(0, v);
    return b;
}

template <class Place>
struct kind {
    any_handle (*make)(Place&, std::uint64_t serial, std::uint32_t amount);
    bool has_end = true;
    bool bound   = false;  ///< holds memory of its batch, so it cannot leave
};

using specimens::derived;
using specimens::ending;
using specimens::plain;

/// Small ones first: who chooses by a skewed number mostly makes those. The sizes lie about the edges of extents
/// (8184), of windows and of units.
template <class Place>
inline constexpr kind<Place> small[]{
    {make_one<plain<24>, Place>, false},
    {make_one<ending<24>, Place>},
    {make_number<Place>, false},
    {make_one<plain<64>, Place>, false},
    {make_one<ending<40>, Place>},
    {make_one<plain<104>, Place>, false},
    {make_one<plain<64, 16>, Place>, false},
    {make_one<ending<128>, Place>},
    {make_numbers<Place>, false},
    {make_elements<8, Place>},
    {make_buffer<Place>, false},
    {make_one<plain<64, 64>, Place>, false},
    {make_one<derived<64>, Place>},
    {make_one<plain<256>, Place>, false},
    {make_one<ending<64, 64>, Place>},
    {make_one<plain<1000> const, Place>, false},
    {make_one<specimens::meddler, Place>},
    {make_elements<64, Place>},
    {make_one<ending<1000>, Place>},
};
template <class Place>
inline constexpr kind<Place> big[]{
    {make_one<plain<4096>, Place>, false},
    {make_one<ending<4096>, Place>},
    {make_one<plain<512, 256>, Place>, false},
    {make_one<ending<512, 256>, Place>},
    {make_one<plain<8184>, Place>, false},
    {make_one<ending<8160>, Place>},
    {make_one<plain<8192>, Place>, false},
    {make_one<ending<8168>, Place>},
    {make_one<plain<8192, 4096>, Place>, false},
    {make_one<derived<5000>, Place>},
    {make_one<plain<20000>, Place>, false},
    {make_one<ending<20000>, Place>},
    {make_one<plain<40000>, Place>, false},
    {make_one<ending<32768, 32768>, Place>},
    {make_one<plain<65400>, Place>, false},
    {make_one<ending<65400>, Place>},
    {make_one<plain<65536>, Place>, false},
    {make_one<ending<65536>, Place>},
    {make_one<plain<100'032, 64>, Place>, false},
    {make_one<derived<100'000>, Place>},
    {make_one<plain<131'072, 65'536>, Place>, false},
    {make_one<ending<200'000>, Place>},
    {make_one<plain<3 << 20>, Place>, false},
};
template <class Place>
inline constexpr kind<Place> contained{make_container<Place>, true, true};

/// One kind out of all; mostly small ones.
template <class Place>
kind<Place> const& pick(std::uint32_t choice) {
    if constexpr (!std::is_same_v<Place, current_batch>)
        if (choice % 32 == 1) return contained<Place>;
    std::uint32_t const which = choice / 32;
    if (choice % 32 == 2) return big<Place>[which % std::size(big<Place>)];
    return small<Place>[which % (1 + which / 64 % std::size(small<Place>))];
}

}  // namespace kinds

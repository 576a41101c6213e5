// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include <tenure/batch.hpp>
#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/word.hpp>

namespace tenure::detail {

/// What stands in a slab for something that is registered with a batch instead of made in it. Its destructor does
/// what it was registered for; drop() ends it without that, when the caller takes it back.

struct cell;

/// A place among those that stand for what was made elsewhere (cells.hpp), given back unless it is filled.
class cell_guard {
public:
    /// Throws bad_address, memory_full.
    TENURE_DECL explicit cell_guard(void const* p);
    TENURE_DECL ~cell_guard();
    cell_guard(cell_guard const&)            = delete;
    cell_guard& operator=(cell_guard const&) = delete;

    cell* get() const noexcept { return cell_; }

    /// `record` is what the batch owns for it. Returns the word of its handles.
    TENURE_DECL word_t fill(raw_handle record) noexcept;

private:
    cell* cell_;
    bool  filled_ = false;
};

TENURE_DECL void give_adopted_cell(cell& c) noexcept;

/// Stands for an object made elsewhere, which the deleter ends.
template <class T, class Deleter>
struct adopted {
    T*                            pointer;
    [[no_unique_address]] Deleter deleter;
    cell*                         place;

    ~adopted() {
        give_adopted_cell(*place);
        deleter(pointer);
    }
    void drop() noexcept {
        give_adopted_cell(*place);
        std::destroy_at(&deleter);
    }
};

/// Stands for a call of `f`.
template <class F, release_phase Phase>
struct deferred : deferred_call {
    explicit deferred(F&& f) noexcept(std::is_nothrow_move_constructible_v<F>) : call(std::move(f)) {}
    deferred(deferred const&)            = delete;
    deferred& operator=(deferred const&) = delete;
    ~deferred() { call(); }

    void drop() noexcept { std::destroy_at(&call); }

    [[no_unique_address]] F call;
};

template <class T>
inline constexpr bool is_registered = false;
template <class T, class Deleter>
inline constexpr bool is_registered<adopted<T, Deleter>> = true;
template <class F, release_phase Phase>
inline constexpr bool is_registered<deferred<F, Phase>> = true;

/// Whether a T is an object for who asks for a batch's objects, or stands for one.
template <class T>
inline constexpr bool is_object = true;
template <class F, release_phase Phase>
inline constexpr bool is_object<deferred<F, Phase>> = false;

/// Its type for them. That of what was adopted may be incomplete, and so is told by a pointer.
template <class T>
struct told_as {
    using type = T;
};
template <class T, class Deleter>
struct told_as<adopted<T, Deleter>> {
    using type = T*;
};

/// When the end of a batch comes to a T.
template <class T>
inline constexpr release_phase phase_of = release_phase::in_order;
template <class F, release_phase Phase>
inline constexpr release_phase phase_of<deferred<F, Phase>> = Phase;

}  // namespace tenure::detail

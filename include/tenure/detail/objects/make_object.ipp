// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <cstring>
#include <memory_resource>
#include <mutex>
#include <typeinfo>

#include <tenure/detail/base/cells.hpp>
#include <tenure/detail/batch/entry_lists.hpp>
#include <tenure/detail/objects/make_object.hpp>
#include <tenure/detail/objects/slab.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

TENURE_SLOW TENURE_DECL space allocate_large(lane& l, std::size_t before, std::size_t bytes, std::size_t alignment,
                                             finalizer const& what, failure& why) {
    unit* const u = take_large(*l.batch, l, before, bytes, alignment, 1, why);
    if (!u) return {};
    std::uintptr_t const begin = u->address + u->large_offset.load(std::memory_order_relaxed);
    unpoison(to_pointer(begin), bytes);
    word_t const generation = generation_of(table_word(u->address).load(std::memory_order_relaxed));
    word_t const word       = whole_word(generation) | (before ? header_flag : 0);
    if (object_recorder* const r = recorder_of(*l.batch))
        r->note({{to_pointer(begin + before), word}, begin, bytes, what}, __builtin_return_address(0));
    return {{begin, bytes}, to_pointer(begin + before), word, u};
}

[[gnu::cold]] TENURE_DECL void forget(lane& l, space const& s) noexcept {
    batch_record& b = *l.batch;
    if (object_recorder* const r = former_recorder_of(b)) r->forget(s.at.begin);
    if (s.large) {
        unlink_large(b, s.large);
        b.rest.books.large_made.add(~std::uint64_t{0}, ~std::uint64_t{s.at.bytes} + 1, false);  // it was never made
        refund_use(b, s.at.bytes);
        give_large(s.large);
        return;
    }
    std::uint64_t const cursor = l.cursor.load(std::memory_order_relaxed);
    if (address_in(cursor) == s.at.begin + s.at.bytes && objects_in(cursor) != 0) {
        poison(to_pointer(s.at.begin), s.at.bytes);
        l.cursor.store(cursor - cursor_at(s.at.bytes) - one_object, std::memory_order_relaxed);
        shut_if_recorded(l);
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
    b.add(&ledger::freed, 0, x.bytes, b.is_here());
    refund_use(b, x.bytes);
    moving_guard const moving(l);
    add_relaxed<std::uint64_t>(l.objects_before, ~std::uint64_t{0});  // it was never made
}

TENURE_DECL void register_in_phase(lane& l, space const& s, finalizer const& f) noexcept {
    l.batch->touch();
    put_in_list(*l.batch, s.header(), reinterpret_cast<std::uintptr_t>(&f));
}

/// Returns whether `r` is a lane's resource, of whatever batch.
inline bool is_lane_resource(std::pmr::memory_resource const& r) noexcept {
#ifdef __cpp_rtti
    return typeid(r) == typeid(lane_resource);
#else
    // Objects with virtual functions begin with a pointer that tells their types apart (Itanium C++ ABI).
    static lane                nobodys;
    static lane_resource const sample(nobodys, 0);
    return std::memcmp(static_cast<void const*>(&r), static_cast<void const*>(&sample), sizeof(void*)) == 0;
#endif
}

TENURE_DECL bool is_resource_of_batch(batch_record const& b, std::pmr::memory_resource const* r) noexcept {
    if (!r || !is_lane_resource(*r)) return false;
    return static_cast<lane_resource const*>(r)->is_of(b);
}

TENURE_DECL cell_guard::cell_guard(void const* p) : cell_(nullptr) {
    if (!p || to_address(p) >> address_bits) raise(error(errc::bad_address, "adopt"));
    cell_ = take_cell();
    if (!cell_) raise(error(errc::memory_full, "adopt: no cell left"));
}

TENURE_DECL cell_guard::~cell_guard() {
    if (cell_ && !filled_) give_cell(*cell_);
}

TENURE_DECL word_t cell_guard::fill(raw_handle record) noexcept {
    filled_ = true;
    fill_cell(*cell_, record.pointer, record.word);
    return cell_->word.load(std::memory_order_relaxed);
}

TENURE_DECL void give_adopted_cell(cell& c) noexcept { give_cell(c); }

}  // namespace tenure::detail

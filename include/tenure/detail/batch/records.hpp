// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <type_traits>

#include <tenure/detail/base/memory_tools.hpp>
#include <tenure/detail/batch/process.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Batch records and lanes are taken from the thread's stock or the process's, and given back to it.

inline batch_record* record_at(std::uint64_t index) noexcept {
    batch_record* const chunk =
        tables.records ? tables.records[index / records_a_chunk].load(std::memory_order_acquire) : nullptr;
    return chunk ? chunk + index % records_a_chunk : nullptr;
}

/// Returns the record that the batch with that id has or had, or null if no batch can have the id.
inline batch_record* record_of(std::uint64_t id) noexcept { return id ? record_at(record_number(id)) : nullptr; }

/// Returns whether a batch of that registry has the record. A free record may name the registry too, and be
/// another's the next moment. A record with an id names the registry of its batch; so the id is read first.
inline bool is_in_use(batch_record const& b, registry_core const& r) noexcept {
    return b.id.load(std::memory_order_acquire) && b.registry.load(std::memory_order_relaxed) == &r;
}

/// All records that ids can name are in use: a kind of bad_alloc, because for each batch that is open there is
/// memory, some kilobyte, and a program that has no more must end some.
struct too_many_batches final : std::bad_alloc {
    char const* what() const noexcept override {
        return "this process has 67108864 batches, as many as there can be: end some";
    }
};
static_assert(std::uint64_t{1} << record_bits == 67108864);

/// Returns a free record. Throws std::bad_alloc.
TENURE_COLD inline batch_record* more_records() {
    std::scoped_lock const guard(process.mutex);
    thread_context&        me = this_thread;
    if (!process.free_records) {
        std::uint32_t const first = process.record_count;
        if (first >> record_bits) raise(too_many_batches());
        static_assert(std::is_nothrow_default_constructible_v<batch_rest> &&
                      alignof(batch_rest) <= alignof(batch_record));
        auto* const chunk =
            static_cast<batch_record*>(::operator new(records_a_chunk * (sizeof(batch_record) + sizeof(batch_rest)),
                                                      std::align_val_t(alignof(batch_record))));
        auto* const rests = reinterpret_cast<batch_rest*>(chunk + records_a_chunk);
        for (std::uint32_t i = 0; i < records_a_chunk; ++i) {
            batch_record* const b = ::new (chunk + i) batch_record(*::new (rests + i) batch_rest);
            b->rest.timer.batch   = b;
            b->index              = first + i;
            b->next_free          = process.free_records;
            process.free_records  = b;
        }
        never_given_back(chunk);
        process.record_count += records_a_chunk;
        tables.records[first / records_a_chunk].store(chunk, std::memory_order_release);
    }
    return_at_exit();
    batch_record* const b = process.free_records;
    process.free_records  = b->next_free;
    while (process.free_records && me.record_count < 16 && !me.exiting) {
        batch_record* const spare = process.free_records;
        process.free_records      = spare->next_free;
        spare->next_free          = me.records;
        me.records                = spare;
        ++me.record_count;
    }
    return b;
}

/// How many free records a thread keeps.
inline constexpr std::uint32_t most_records = 256;

inline batch_record* take_record() {
    thread_context& me = this_thread;
    if (batch_record* const b = me.records) {
        me.records = b->next_free;
        --me.record_count;
        return b;
    }
    return more_records();
}

TENURE_COLD inline void give_record_to_process(batch_record* b) noexcept {
    std::scoped_lock const guard(process.mutex);
    b->next_free         = process.free_records;
    process.free_records = b;
}

[[gnu::always_inline]] inline void give_record(batch_record* b) noexcept {
    thread_context& me = this_thread;
    if (b->generation.load(std::memory_order_relaxed) >> (generation_bits - 1)) return;  // its ids are used up
    if (me.record_count >= most_records) [[unlikely]]
        return give_record_to_process(b);
    b->next_free = me.records;
    me.records   = b;
    ++me.record_count;
}

/// Returns a lane besides a batch's own. Lanes, like records, are never returned to the system. Throws
/// std::bad_alloc.
inline lane* take_lane() {
    std::scoped_lock const guard(process.mutex);
    lane*                  l = process.free_lanes;
    if (l) process.free_lanes = l->next;
    else l = new lane;
    l->serial.store(++process.last_serial | std::uint64_t{1} << 63, std::memory_order_relaxed);
    return l;
}

inline void give_lane(lane* l) noexcept {
    std::scoped_lock const guard(process.mutex);
    l->serial.store(0, std::memory_order_relaxed);
    l->next            = process.free_lanes;
    process.free_lanes = l;
}

template <class F>
void for_records(F f) {
    for (std::uint64_t i = 0;; i += records_a_chunk) {
        batch_record* const chunk = i >> record_bits ? nullptr : record_at(i);
        if (!chunk) return;
        for (std::size_t k = 0; k < records_a_chunk; ++k) f(chunk[k]);
    }
}

}  // namespace tenure::detail

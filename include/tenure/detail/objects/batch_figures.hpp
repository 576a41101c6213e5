// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>

#include <poll.h>
#include <sched.h>

#include <tenure/batch.hpp>
#include <tenure/detail/base/printed.hpp>
#include <tenure/detail/batch/batch_record.hpp>
#include <tenure/detail/batch/buffers_front.hpp>
#include <tenure/detail/batch/records.hpp>
#include <tenure/detail/batch/window.hpp>

namespace tenure::detail {

/// What a batch has made so far, summed over its lanes. Exact on the batch's own thread; elsewhere exact lane by
/// lane.
struct batch_figures {
    std::uint64_t made_objects, made_bytes, units;
};

inline batch_figures figures_of(batch_record& b) noexcept {
    lane_figures const own = b.is_here() ? own_figures_of(b.primary) : figures_of(b.primary);
    batch_figures sum{own.objects + b.rest.books.large_made.objects(), own.bytes + b.rest.books.large_made.bytes(),
                      b.primary.units.load(std::memory_order_relaxed) +
                          b.rest.books.large_units.load(std::memory_order_relaxed) +
                          b.rest.books.shared_units.load(std::memory_order_relaxed)};
    if (b.has_lanes.load(std::memory_order_acquire)) {
        std::scoped_lock const guard(b.lock);
        for (lane const* l = b.lanes; l; l = l->next) {
            lane_figures const more = figures_of(*l);
            sum.made_objects += more.objects;
            sum.made_bytes += more.bytes;
            sum.units += l->units.load(std::memory_order_relaxed);
        }
    }
    return sum;
}

inline std::uint64_t bytes_in_use(batch_record const& b, batch_figures const& f) noexcept {
    std::uint64_t const in  = f.made_bytes + b.rest.books.received.bytes();
    std::uint64_t const out = b.rest.books.given.bytes() + b.rest.books.freed.bytes();
    return in > out ? in - out : 0;  // another thread reads the parts at different moments
}

TENURE_SLOW inline void note_new_peak(batch_record& b, std::uint64_t cursor) noexcept {
    bool const alone = !b.has_lanes.load(std::memory_order_relaxed);
    b.rest.books.noted.store(alone ? cursor : 0, std::memory_order_relaxed);
    std::uint64_t const now = bytes_in_use(b, figures_of(b));
    std::uint64_t       old = b.rest.books.peak.load(std::memory_order_relaxed);
    while (now > old && !b.rest.books.peak.compare_exchange_weak(old, now, std::memory_order_relaxed)) {}
}

/// Raises the peak if more is in use now. Must be called before anything leaves the batch: only then can a maximum
/// be missed. If objects leave in a row and nothing is made in between, one call computes the use.
[[gnu::always_inline]] inline void note_peak(batch_record& b) noexcept {
    std::uint64_t const cursor = b.primary.cursor.load(std::memory_order_relaxed);
    if (cursor == 0 || cursor != b.rest.books.noted.load(std::memory_order_relaxed)) note_new_peak(b, cursor);
}

inline batch_usage usage_of(batch_record& b) noexcept {
    flow const          in_stores = stored_in(b);
    batch_figures const f         = figures_of(b);
    std::uint64_t const now       = bytes_in_use(b, f);
    std::uint64_t const in        = f.made_objects + b.rest.books.received.objects();
    std::uint64_t const out       = b.rest.books.given.objects() + b.rest.books.freed.objects();
    return {in > out ? in - out : 0,
            now,
            f.units << unit_shift,
            std::max(now, b.rest.books.peak.load(std::memory_order_relaxed)),
            in_stores.buffers,
            in_stores.bytes,
            b.rest.out_bytes.load(std::memory_order_relaxed)};
}

/// Writes the name of a batch that has none.
inline void write_name(batch_record& b, std::string_view name) noexcept {
    std::size_t const n = std::min(name.size(), name_words * 8 - 1);
    for (std::size_t from = 0; from <= n; from += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, name.data() + from, std::min<std::size_t>(8, n - from));
        b.rest.name[from / 8].store(word, std::memory_order_release);
    }
    b.named.store(true, std::memory_order_release);
}

/// Gives a batch another name, which other threads may be reading.
inline void rename(batch_record& b, std::string_view name) noexcept {
    std::scoped_lock const guard(b.lock);
    std::uint32_t const    n = b.rest.renames.load(std::memory_order_relaxed);
    b.rest.renames.store(n + 1, std::memory_order_relaxed);
    write_name(b, name);
    b.rest.renames.store(n + 2, std::memory_order_release);
}

/// Reads a name; a mix of two, if another thread renames the batch meanwhile.
inline void read_name(batch_record const& b, char (&out)[name_words * 8]) noexcept {
    out[0] = 0;
    if (!b.named.load(std::memory_order_acquire)) return;
    for (std::size_t i = 0; i < name_words; ++i) {
        std::uint64_t const word = b.rest.name[i].load(std::memory_order_acquire);
        std::memcpy(out + i * 8, &word, 8);
        constexpr std::uint64_t ones = ~std::uint64_t{0} / 0xff;
        if ((word - ones) & ~word & ones << 7) return;  // one of its bytes is 0 (Warren, Hacker's Delight, 6-1)
    }
}

inline std::string name_of(batch_record const& b) {
    constexpr int briefly = 100, most = 300;  // a debugger may have stopped the thread that renames it

    char out[name_words * 8];
    for (int i = 0; i < most; ++i) {
        std::uint32_t const renames = b.rest.renames.load(std::memory_order_acquire);
        read_name(b, out);
        if (renames % 2 == 0 && b.rest.renames.load(std::memory_order_relaxed) == renames) break;
        if (i < briefly) ::sched_yield();
        else ::poll(nullptr, 0, 1);
    }
    out[sizeof out - 1] = 0;  // another thread may be writing the name of the record's next batch
    return out;
}

inline std::string label_of(std::string const& name, std::uint64_t id) {
    return name.empty() ? id_text(id) : printed("'%s' (%s)", name.c_str(), id_text(id).c_str());
}

/// Returns the label of a batch that may be over: name and id, or the id alone once another batch has its record.
TENURE_COLD inline std::string label_of(std::uint64_t id) {
    batch_record const* const b    = record_of(id);
    bool const                same = b && b->generation.load(std::memory_order_acquire) == id >> record_bits;
    return label_of(same ? name_of(*b) : std::string(), id);
}

inline std::string label_of(batch_record const& b) {
    if (std::uint64_t const id = b.id.load(std::memory_order_relaxed)) return label_of(name_of(b), id);
    thread_context const& me    = this_thread;
    bool const            known = me.over && me.current == &b.primary;
    return known ? printed("%s that is over", label_of(me.over).c_str()) : "that is over";
}

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/word.hpp>

namespace tenure::detail {

/// The cell of an adopted object. A handle to such an object points outside the slabs, where no unit can tell
/// whether it is alive. So each has a cell: a generation, and the object's record in the slab (`adopted` in
/// make_object.hpp), which stands for the object in all questions of ownership.
struct cell {
    std::atomic<word_t>      word{0};  ///< as in the handle while the object is alive
    std::atomic<void const*> record{nullptr};
    std::atomic<word_t>      record_word{0};
    word_t                   generation = 0;
    cell*                    next_free  = nullptr;
    word_t                   index      = 0;
};

/// All cells of the process. They are never given back: like the generations of units, they must outlive all
/// handles.
struct cell_table {
    static constexpr std::size_t a_chunk = 1024;

    std::mutex         mutex;
    cell*              free = nullptr;
    word_t             used = 0;
    std::atomic<cell*> chunks[(cell_index_mask + 1) / a_chunk]{};

    cell* find(word_t w) noexcept {
        word_t const i = w & cell_index_mask;
        cell* const  c = chunks[i / a_chunk].load(std::memory_order_acquire);
        return c ? c + i % a_chunk : nullptr;
    }
};
TENURE_SHARED inline constinit cell_table cells{};

/// Returns a free cell, or null if memory is full, or if all of the table's 33 million places are in use.
inline cell* take_cell() noexcept {
    std::scoped_lock const guard(cells.mutex);
    if (!cells.free) {
        word_t const first = cells.used;
        if (first > cell_index_mask) return nullptr;
        auto* const chunk = new (std::nothrow) cell[cell_table::a_chunk];
        if (!chunk) return nullptr;
        for (word_t i = cell_table::a_chunk; i-- > 0;) {
            chunk[i].index     = first + i;
            chunk[i].next_free = cells.free;
            cells.free         = chunk + i;
        }
        cells.used += cell_table::a_chunk;
        cells.chunks[first / cell_table::a_chunk].store(chunk, std::memory_order_release);
    }
    cell* const c = cells.free;
    cells.free    = c->next_free;
    return c;
}

inline void fill_cell(cell& c, void const* record, word_t record_word) noexcept {
    c.record.store(record, std::memory_order_relaxed);
    c.record_word.store(record_word, std::memory_order_relaxed);
    c.word.store(cell_flag | ++c.generation << generation_shift | c.index, std::memory_order_release);
}

inline void give_cell(cell& c) noexcept {
    c.word.store(0, std::memory_order_release);
    std::scoped_lock const guard(cells.mutex);
    if (c.generation >= last_generation) return;
    c.next_free = cells.free;
    cells.free  = &c;
}

inline bool cell_alive(word_t w) noexcept {
    cell* const c = cells.find(w);
    return c && c->word.load(std::memory_order_acquire) == w;
}

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/function_ref.hpp>
#include <tenure/detail/base/sizes.hpp>
#include <tenure/detail/base/word.hpp>
#include <tenure/detail/batch/lane.hpp>
#include <tenure/error.hpp>
#include <tenure/result.hpp>
#include <tenure/store/any_store.hpp>

namespace tenure::detail {

class adopted_memory;
class buffer_record;

/// A buffer without its type, or a part of one. Offsets of the calls below count elements, as their messages do;
/// what they throw is what buffer<T> says.
struct untyped_buffer {
    buffer_record const* record;
    word_t               word;
    std::size_t          begin;      ///< the part's first element; 0 if it is the whole
    std::size_t          size;       ///< elements from there on
    std::size_t          element;    ///< bytes of one
    std::size_t          alignment;  ///< of the first, where a store is asked for memory

    raw_handle raw() const noexcept { return {record, word}; }
};

[[noreturn]] TENURE_DECL void throw_no_part(untyped_buffer const& b, std::size_t offset, std::size_t n);

/// Returns a part of a buffer. Throws out_of_range; stale_handle, if it would have to look.
inline untyped_buffer part_of(untyped_buffer b, std::size_t offset, std::size_t n) {
    if (!is_within(offset, n, b.size)) [[unlikely]]
        throw_no_part(b, offset, n);
    b.begin += offset;
    b.size = n;
    return b;
}

/// Rows of `count` elements, `stride` elements from beginning to beginning.
struct buffer_rows {
    std::size_t offset, count, stride;
};

TENURE_DECL void read_buffer(untyped_buffer const& b, std::size_t offset, std::span<std::byte> out);
TENURE_DECL result<void> try_read_buffer(untyped_buffer const& b, std::size_t offset, std::span<std::byte> out);
TENURE_DECL void         write_buffer(untyped_buffer const& b, std::size_t offset, std::span<std::byte const> in);
TENURE_DECL result<void> try_write_buffer(untyped_buffer const& b, std::size_t offset,
                                          std::span<std::byte const> in);

TENURE_DECL void read_rows(untyped_buffer const& b, buffer_rows const& rows, std::span<std::byte> out);
TENURE_DECL result<void> try_read_rows(untyped_buffer const& b, buffer_rows const& rows, std::span<std::byte> out);
TENURE_DECL void write_rows(untyped_buffer const& b, buffer_rows const& rows, std::span<std::byte const> in);
TENURE_DECL result<void> try_write_rows(untyped_buffer const& b, buffer_rows const& rows,
                                        std::span<std::byte const> in);

/// Fills `n` elements with `value`, the bytes of one.
TENURE_DECL void fill_buffer(untyped_buffer const& b, std::size_t offset, std::size_t n,
                             std::span<std::byte const> value);
TENURE_DECL result<void> try_fill_buffer(untyped_buffer const& b, std::size_t offset, std::size_t n,
                                         std::span<std::byte const> value);

TENURE_DECL std::byte* map_buffer(untyped_buffer const& b);
TENURE_DECL void       copy_buffer(untyped_buffer const& from, untyped_buffer const& to);
TENURE_DECL void       move_buffer(untyped_buffer const& b, any_store const& store);
/// Returns a buffer of `bytes` that takes this one's place; this one is freed.
TENURE_DECL raw_handle resize_buffer(untyped_buffer const& b, std::size_t bytes);
TENURE_DECL any_store  store_of_buffer(untyped_buffer const& b);
TENURE_DECL block      block_of_buffer(untyped_buffer const& b);
TENURE_DECL void       persist_named(untyped_buffer const& b, std::string_view name);
TENURE_DECL void       sync_buffer(untyped_buffer const& b);

/// Calls `look` until what it found of the buffer's block was still so when it returned, and notes that a caller
/// has the address. The block is not taken away while `look` runs. Throws std::bad_alloc, and what `look` throws.
TENURE_DECL void look_at_block(raw_handle b, function_ref<void()> look);

struct stored_block {
    any_store store;
    block     where;
};

/// Syncs blocks in one call of each store, in the order of their first blocks.
TENURE_DECL void sync_blocks(std::span<stored_block> all);

/// A new one of the lane's batch, of `bytes`; one with these contents; or what a durable store kept under a name,
/// with its size.
TENURE_DECL raw_handle make_buffer(lane& l, std::size_t bytes, std::size_t alignment, any_store const& named);
TENURE_DECL raw_handle make_written_buffer(lane& l, std::span<std::byte const> contents, std::size_t alignment,
                                           any_store const& named);
/// One that is `memory`, and ends it.
TENURE_DECL raw_handle adopt_buffer(lane& l, std::unique_ptr<adopted_memory> memory);
TENURE_DECL raw_handle open_buffer(lane& l, std::string_view name, any_store const& named, std::size_t element,
                                   std::size_t& bytes);

}  // namespace tenure::detail

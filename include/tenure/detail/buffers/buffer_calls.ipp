// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <tenure/detail/base/printed.hpp>
#include <tenure/detail/base/sizes.hpp>
#include <tenure/detail/batch/waiting.hpp>
#include <tenure/detail/blocks/copying.hpp>
#include <tenure/detail/buffers/adopted_store.hpp>
#include <tenure/detail/buffers/buffer_access.hpp>
#include <tenure/detail/buffers/buffer_calls.hpp>
#include <tenure/detail/buffers/durable_buffers.hpp>
#include <tenure/detail/buffers/evicting.hpp>
#include <tenure/detail/life/entering.hpp>
#include <tenure/detail/objects/throwing.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// What the calls on a buffer ask before they touch its bytes.
class buffer_check {
public:
    explicit buffer_check(untyped_buffer const& b) noexcept : b_(b) {}

    buffer_record const& record() const noexcept { return *b_.record; }
    any_store&           store() const noexcept { return record().from->store; }

    buffer_record const& checked() const {
        if (errc const why = refusal(); why != errc{}) [[unlikely]]
            throw_refused(b_.raw(), why);
        return record();
    }
    /// Brings evicted bytes back, and returns the record. Every call that needs the bytes uses it.
    buffer_record const& present() const {
        if (!checked().is_here()) [[unlikely]]
            bring_back(b_.raw());
        return record();
    }
    /// Returns whether an ordinary access is allowed: alive, within range, bytes here, time not up.
    bool ready(std::size_t offset, std::size_t n) const noexcept {
        return is_alive(b_.raw()) && is_within(offset, n, b_.size) && record().is_here() &&
               is_surely_in_time(record().from->registry, b_.raw());
    }
    result<void> refused(std::size_t offset, std::size_t n) const {
        if (errc const why = refusal(); why != errc{}) return make_error_code(why);
        if (!is_within(offset, n, b_.size)) return make_error_code(errc::out_of_range);
        return {};
    }
    [[noreturn]] void fail(std::error_code why, char const* call) const {
        if (!is_alive(b_.raw())) throw_stale(b_.raw());
        throw_store_error(why, call, store());
    }
    void must(result<void> const& done, char const* call) const {
        if (!done) fail(done.error(), call);
    }

    /// The place of an element. The bytes are here.
    place_in_block at(std::size_t i) const noexcept {
        return {store(), record().where, (b_.begin + i) * b_.element};
    }

private:
    errc refusal() const {
        return b_.record && is_alive(b_.raw()) ? refusal_of(record().from->registry, b_.raw())
                                               : stale_because(b_.raw());
    }

    untyped_buffer const& b_;
};

/// Tells whether the bytes are here. If they are, they stay while this object lives, even if the batch is
/// cancelled.
class bytes_here {
public:
    explicit bytes_here(untyped_buffer const& b) noexcept
        : access_(b.record), is_(access_ && b.record->is_here()) {}
    explicit operator bool() const noexcept { return is_; }

    /// Throws std::bad_alloc if memory ran out. Otherwise bytes that are not here are worth another look.
    void memory_or_throw() const {
        if (!access_) raise(std::bad_alloc());
    }

private:
    buffer_access access_;
    bool          is_;
};

/// Whether a use of all elements needs what they are.
enum class old_contents { needed, replaced };

/// Calls `use(place)` where the bytes of `n` elements are. Throws what it returns.
template <old_contents Old, class Use>
void use_bytes(untyped_buffer const& b, std::size_t offset, std::size_t n, char const* call, Use const& use) {
    buffer_check const check(b);
    for (;;) {
        if (!check.ready(offset, n)) [[unlikely]] {
            check.must(check.refused(offset, n), call);
            if constexpr (Old == old_contents::replaced)
                if (!b.record->is_here() && n * b.element == b.record->where.bytes)
                    return write_anew(b.raw(), b.alignment, use);
            check.present();
        }
        bytes_here const here(b);
        if (here) {
            waiting_here const timed = waiting_for(check.store());
            return check.must(use(check.at(offset)), call);
        }
        here.memory_or_throw();
    }
}

/// What `run` throws of tenure's own.
template <class Run>
result<void> outcome_of(Run const& run) {
    auto const done = [&]() -> result<void> {
        run();
        return {};
    };
    auto const full   = [](std::bad_alloc const&) -> result<void> { return make_error_code(errc::memory_full); };
    auto const failed = [](error const& e) -> result<void> { return e.code(); };
    return run_or<error>([&] { return run_or<std::bad_alloc>(done, full); }, failed);
}

/// As use_bytes(), but returns the error.
template <old_contents Old, class Use>
result<void> try_use_bytes(untyped_buffer const& b, std::size_t offset, std::size_t n, Use const& use) {
    buffer_check const check(b);
    if (!check.ready(offset, n)) [[unlikely]]
        if (auto const why = check.refused(offset, n); !why) return why;
    if (bytes_here const here(b); here) {
        waiting_here const timed = waiting_for(check.store());
        return use(check.at(offset));
    }
    return outcome_of([&] { use_bytes<Old>(b, offset, n, "use", use); });
}

TENURE_DECL void read_buffer(untyped_buffer const& b, std::size_t offset, std::span<std::byte> out) {
    auto const read = [&](place_in_block const& at) { return at.read(out); };
    use_bytes<old_contents::needed>(b, offset, out.size() / b.element, "read from", read);
}

TENURE_DECL result<void> try_read_buffer(untyped_buffer const& b, std::size_t offset, std::span<std::byte> out) {
    auto const read = [&](place_in_block const& at) { return at.read(out); };
    return try_use_bytes<old_contents::needed>(b, offset, out.size() / b.element, read);
}

TENURE_DECL void write_buffer(untyped_buffer const& b, std::size_t offset, std::span<std::byte const> in) {
    auto const write = [&](place_in_block const& at) { return at.write(in); };
    use_bytes<old_contents::replaced>(b, offset, in.size() / b.element, "write to", write);
}

TENURE_DECL result<void> try_write_buffer(untyped_buffer const& b, std::size_t offset,
                                          std::span<std::byte const> in) {
    auto const write = [&](place_in_block const& at) { return at.write(in); };
    return try_use_bytes<old_contents::replaced>(b, offset, in.size() / b.element, write);
}

TENURE_DECL void fill_buffer(untyped_buffer const& b, std::size_t offset, std::size_t n,
                             std::span<std::byte const> value) {
    auto const fill = [&](place_in_block const& at) { return fill_block(at, n * b.element, value); };
    use_bytes<old_contents::replaced>(b, offset, n, "fill a buffer of", fill);
}

TENURE_DECL result<void> try_fill_buffer(untyped_buffer const& b, std::size_t offset, std::size_t n,
                                         std::span<std::byte const> value) {
    auto const fill = [&](place_in_block const& at) { return fill_block(at, n * b.element, value); };
    return try_use_bytes<old_contents::replaced>(b, offset, n, fill);
}

/// Rows and the memory where they lie one after the other, in bytes.
class packed_rows {
public:
    /// `bytes`: of all rows together.
    packed_rows(untyped_buffer const& b, buffer_rows const& rows, std::size_t bytes) noexcept
        : rows_(rows),
          all_(bytes / b.element),
          row_(rows.count == rows.stride ? bytes : rows.count * b.element),
          stride_(rows.stride * b.element) {}

    /// Returns the elements from the first to the last. If there are no such rows, more than any buffer has.
    std::size_t extent() const noexcept {
        if (all_ == 0) return 0;
        if (rows_.count == 0 || all_ % rows_.count || rows_.stride < rows_.count) return absurd_bytes;
        std::size_t const apart = array_bytes(all_ / rows_.count - 1, rows_.stride);
        return rows_.count > absurd_bytes - apart ? absurd_bytes : apart + rows_.count;
    }

    /// Calls f(place, part) for each row until one fails; once, if there is nothing between them.
    template <class Bytes, class F>
    result<void> for_each(place_in_block const& first, Bytes all, F f) const {
        place_in_block at = first;
        for (; !all.empty(); all = all.subspan(row_), at.offset += stride_)
            if (auto const done = f(at, all.first(row_)); !done) return done;
        return {};
    }

private:
    buffer_rows rows_;
    std::size_t all_, row_, stride_;
};

/// Copies each row by memory if the place has an address, else by a call of the store.
inline result<void> read_each_row(packed_rows const& rows, place_in_block const& first, std::span<std::byte> out) {
    result<std::byte*> const here = first.address();
    return rows.for_each(first, out, [&](place_in_block const& at, std::span<std::byte> row) -> result<void> {
        if (!here) return at.read(row);
        std::memcpy(row.data(), *here + (at.offset - first.offset), row.size());
        return {};
    });
}
inline result<void> write_each_row(packed_rows const& rows, place_in_block const& first,
                                   std::span<std::byte const> in) {
    result<std::byte*> const here = first.address();
    return rows.for_each(first, in, [&](place_in_block const& at, std::span<std::byte const> row) -> result<void> {
        if (!here) return at.write(row);
        std::memcpy(*here + (at.offset - first.offset), row.data(), row.size());
        return {};
    });
}

TENURE_DECL void read_rows(untyped_buffer const& b, buffer_rows const& rows, std::span<std::byte> out) {
    packed_rows const all(b, rows, out.size());
    auto const        read = [&](place_in_block const& first) { return read_each_row(all, first, out); };
    use_bytes<old_contents::needed>(b, rows.offset, all.extent(), "read rows from", read);
}

TENURE_DECL result<void> try_read_rows(untyped_buffer const& b, buffer_rows const& rows, std::span<std::byte> out) {
    packed_rows const all(b, rows, out.size());
    auto const        read = [&](place_in_block const& first) { return read_each_row(all, first, out); };
    return try_use_bytes<old_contents::needed>(b, rows.offset, all.extent(), read);
}

TENURE_DECL void write_rows(untyped_buffer const& b, buffer_rows const& rows, std::span<std::byte const> in) {
    packed_rows const all(b, rows, in.size());
    auto const        write = [&](place_in_block const& first) { return write_each_row(all, first, in); };
    use_bytes<old_contents::needed>(b, rows.offset, all.extent(), "write rows to", write);
}

TENURE_DECL result<void> try_write_rows(untyped_buffer const& b, buffer_rows const& rows,
                                        std::span<std::byte const> in) {
    packed_rows const all(b, rows, in.size());
    auto const        write = [&](place_in_block const& first) { return write_each_row(all, first, in); };
    return try_use_bytes<old_contents::needed>(b, rows.offset, all.extent(), write);
}

[[noreturn]] TENURE_DECL void throw_no_part(untyped_buffer const& b, std::size_t offset, std::size_t n) {
    buffer_check(b).checked();
    raise(error(errc::out_of_range,
                printed("a part of %zu elements from %zu on, in a buffer of %zu", n, offset, b.size)));
}

TENURE_DECL std::byte* map_buffer(untyped_buffer const& b) {
    buffer_check const check(b);
    for (;;) {
        check.present();
        bytes_here const at(b);
        at.memory_or_throw();
        if (!at) continue;
        result<std::byte*> const first = check.at(0).address();
        if (!first) check.fail(first.error(), "map a buffer of");
        if (b.record->mapped() || note_mapped(b.raw())) return *first;
    }
}

TENURE_DECL void copy_buffer(untyped_buffer const& from, untyped_buffer const& to) {
    buffer_check const source(from), target(to);
    for (;;) {
        source.present();
        target.present();
        if (to.size < from.size) throw_out_of_range(from.size, to.size);
        bytes_here const at(from), there(to);
        at.memory_or_throw();
        there.memory_or_throw();
        if (!at || !there) continue;
        auto const done = [&] {
            waiting_here const timed = waiting_for(is_near(source.store()) ? target.store() : source.store());
            return copy_block(source.at(0), target.at(0), from.size * from.element);
        }();
        if (done) return;
        if (!is_alive(from.raw())) throw_stale(from.raw());
        if (!is_alive(to.raw())) throw_stale(to.raw());
        throw_copy_error(done.error(), "copy", source.store(), target.store());
    }
}

TENURE_DECL void move_buffer(untyped_buffer const& b, any_store const& store) {
    auto& r = buffer_check(b).present().from->registry;
    move_buffer_to(r, b.raw(), store, b.alignment);
}

TENURE_DECL raw_handle resize_buffer(untyped_buffer const& b, std::size_t bytes) {
    constexpr char const* call = "resize a buffer ";
    std::size_t const     kept = std::min(bytes, b.size * b.element);
    auto const            copy = [&](any_store& store, block into) {
        use_bytes<old_contents::needed>(b, 0, 0, "resize a buffer of", [&](place_in_block const& from) {
            return copy_block(from, {store, into}, kept);
        });
    };
    function_ref<void(any_store&, block)> const fill = copy;

    registry_core& r = buffer_check(b).present().from->registry;
    raw_handle     made;
    failure const  why = with_owner(r, b.raw(), nullptr, [&](batch_record& owner, extent const&) -> failure {
        if (is_common(owner)) return {errc::not_owner, &owner};
        std::uint64_t const id = owner.id.load(std::memory_order_relaxed);
        if (!hold_or_root(owner, id, unless_crowded)) return {over_because(&owner, id), &owner};
        lane* const l = enter_held(owner);
        struct inside {
            lane* l;
            ~inside() { leave_lane(l); }
        } const here{l};
        made = make_buffer_in(*l, bytes, b.alignment, b.record->from->store, &fill);

        failure const refused = free_one(r, b.raw(), &owner);
        if (refused) [[maybe_unused]]
            failure const none = free_one(r, made, &owner);
        return refused;
    });
    if (why) throw_failure(why, call);
    return made;
}

TENURE_DECL any_store store_of_buffer(untyped_buffer const& b) { return buffer_check(b).checked().from->store; }

TENURE_DECL block block_of_buffer(untyped_buffer const& b) { return buffer_check(b).present().where; }

TENURE_DECL void persist_named(untyped_buffer const& b, std::string_view name) {
    if (is_alive(b.raw())) buffer_check(b).present();
    persist_buffer(b.raw(), name);
}

TENURE_DECL void sync_buffer(untyped_buffer const& b) {
    buffer_check const check(b);
    for (;;) {
        check.present();
        bytes_here const at(b);
        at.memory_or_throw();
        if (at) {
            waiting_here const timed(wait_for::store);
            return check.must(check.store().try_sync({&b.record->where, 1}), "sync");
        }
    }
}

TENURE_DECL void look_at_block(raw_handle b, function_ref<void()> look) {
    buffer_access const at(static_cast<buffer_record const*>(b.pointer));
    if (!at) raise(std::bad_alloc());
    do look();
    while (!note_mapped(b));
}

TENURE_DECL void sync_blocks(std::span<stored_block> all) {
    std::vector<std::pair<std::uint64_t, std::size_t>> by_store;
    by_store.reserve(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) by_store.emplace_back(key_of(all[i].store), i);
    std::sort(by_store.begin(), by_store.end());
    std::vector<std::span<std::pair<std::uint64_t, std::size_t>>> groups;
    for (auto at = by_store.begin(); at != by_store.end();) {
        auto const other = [&](auto const& x) { return all[x.second].store != all[at->second].store; };
        auto const end   = std::find_if(at, by_store.end(), other);
        groups.emplace_back(at, end);
        at = end;
    }
    std::sort(groups.begin(), groups.end(),
              [](auto const& x, auto const& y) { return x.front().second < y.front().second; });
    std::vector<block> blocks;
    for (auto const& group : groups) {
        blocks.clear();
        for (auto const& [key, i] : group) blocks.push_back(all[i].where);
        any_store&         in = all[group.front().second].store;
        waiting_here const timed(wait_for::store);
        if (auto const done = in.try_sync(blocks); !done) throw_store_error(done.error(), "sync", in);
    }
}

TENURE_DECL raw_handle make_buffer(lane& l, std::size_t bytes, std::size_t alignment, any_store const& named) {
    return make_buffer_in(l, bytes, alignment, named);
}

TENURE_DECL raw_handle make_written_buffer(lane& l, std::span<std::byte const> contents, std::size_t alignment,
                                           any_store const& named) {
    auto const write = [&](any_store& store, block into) {
        waiting_here const timed = waiting_for(store);
        if (auto const done = store.write(into, 0, contents); !done)
            throw_store_error(done.error(), "write a new buffer to", store);
    };
    function_ref<void(any_store&, block)> const fill = write;
    return make_buffer_in(l, contents.size(), alignment, named, contents.empty() ? nullptr : &fill);
}

/// Returns the registry's store of adopted memory. Throws std::bad_alloc.
inline any_store store_of_adopted(registry_core& r) {
    std::scoped_lock const guard(r.supplies_mutex);
    if (!r.adopted) r.adopted = std::make_shared<adopted_store>();
    return r.adopted;
}

TENURE_DECL raw_handle adopt_buffer(lane& l, std::unique_ptr<adopted_memory> memory) {
    batch_record& b = *l.batch;
    if (b.refuses()) throw_failure({b.why_closed(), &b}, "adopt a buffer in batch ");
    auto const insert = [&](any_store& in) { return in.get_if<adopted_store>()->insert(*memory); };

    function_ref<result<block>(any_store&)> const take = insert;
    any_store const  store = store_of_adopted(*b.registry.load(std::memory_order_relaxed));
    raw_handle const made  = make_buffer_in(l, memory->bytes().size(), 1, store, nullptr, &take);

    [[maybe_unused]] bool const noted = note_mapped(made);  // the caller has the address
    adopted_memory::adopt(std::move(memory));
    return made;
}

TENURE_DECL raw_handle open_buffer(lane& l, std::string_view name, any_store const& named, std::size_t element,
                                   std::size_t& bytes) {
    return open_buffer_in(l, name, named, element, bytes);
}

}  // namespace tenure::detail

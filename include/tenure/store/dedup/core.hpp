// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <system_error>
#include <utility>

#include <tenure/detail/base/fork_list.hpp>
#include <tenure/detail/base/hash_index.hpp>
#include <tenure/detail/base/sizes.hpp>
#include <tenure/detail/blocks/block_table.hpp>
#include <tenure/detail/blocks/gather_space.hpp>
#include <tenure/store/adaptor/parts.hpp>
#include <tenure/store/concept.hpp>
#include <tenure/store/dedup/figures.hpp>
#include <tenure/store/dedup/upstream.hpp>

namespace tenure::detail {

/// Blocks, the contents they share, and the index of contents. One lock, never held while the upstream is called:
/// a content neither goes nor changes while it has a reference.
template <class Upstream, class Hasher>
class dedup_core {
    using entry    = dedup_block;
    using content  = dedup_content;
    using contents = chain<content>;
    using lock     = std::unique_lock<std::mutex>;

public:
    explicit dedup_core(std::shared_ptr<Upstream> upstream) noexcept : upstream_{std::move(upstream)} {}

    ~dedup_core() {
        contents all = left_;
        table_.for_each([&](std::uint64_t, entry& e) {
            if (e.content && --e.content->refs == 0) all.push(*e.content);
        });
        upstream_.free(all, gather_, [](content* c, bool, std::error_code) { delete c; });
    }

    result<block> allocate(std::size_t bytes, std::size_t alignment) noexcept {
        lock const guard(lock_);
        if (!can_add(figures_.bytes, bytes)) return make_error_code(errc::store_full);
        std::uint64_t const id = table_.insert({nullptr, bytes, alignment, 0, false});
        if (!id) return make_error_code(errc::memory_full);
        table_.find(id)->id = id;
        figures_.bytes += bytes;
        ++figures_.blocks;
        return block{id, bytes};
    }

    result<void> deallocate(std::span<block const> many) noexcept {
        contents        unused;
        std::error_code wrong;
        {
            lock const guard(lock_);
            std::swap(unused, left_);
        }
        for_each_locked(lock_, many, [&](block b) {
            if (entry* const e = find(b)) claim(*e, unused);
            else wrong = errc::no_such_block;
        });
        upstream_.free(unused, gather_, [&](content* c, bool freed, std::error_code refused) {
            lock const guard(lock_);
            if (freed) {
                if (c->last) forget(*c->last);
                destroy(c);
            } else if (c->last) {  // the block lives on
                std::exchange(c->last, nullptr)->claimed = false;
                c->refs                                  = 1;
                if (c->found) show(*c);
                wrong = refused;  // tells the caller more than no_such_block
            } else {
                left_.push(*c);
            }
        });
        if (wrong) return wrong;
        return {};
    }

    result<void> read(block b, std::size_t offset, std::span<std::byte> out) {
        block home;
        {
            lock const         guard(lock_);
            entry const* const e = find(b);
            if (std::error_code const wrong = check(e, offset, out.size())) return wrong;
            if (out.empty()) return {};
            if (e->content) home = e->content->home;
        }
        if (home.id) return upstream_.store->read(home, offset, out);
        std::ranges::fill(out, std::byte{0});
        return {};
    }

    result<void> write(block b, std::size_t offset, std::span<std::byte const> in) {
        lock         guard(lock_);
        entry* const e = find(b);
        if (std::error_code const wrong = check(e, offset, in.size())) return wrong;
        if (in.empty()) return {};
        if (in.size() == b.bytes) return write_whole(*e, in, guard);
        if (std::error_code const wrong = write_part(*e, offset, in, guard)) return wrong;
        if (offset + in.size() == b.bytes) merge(*e, guard);
        return {};
    }

    result<void> seal(block b) {
        lock         guard(lock_);
        entry* const e = find(b);
        if (!e) return make_error_code(errc::no_such_block);
        merge(*e, guard);
        return {};
    }

    dedup_figures figures() const noexcept {
        lock const    guard(lock_);
        dedup_figures f = figures_;
        f.left_behind   = left_.size();
        return f;
    }

    std::shared_ptr<Upstream> const& upstream() const noexcept { return upstream_.store; }

private:
    // --- called with the lock held ------------------------------------------------------------------------------

    entry* find(block b) noexcept {
        entry* const e = table_.find(b.id);
        return e && !e->claimed && e->bytes == b.bytes ? e : nullptr;
    }

    static std::error_code check(entry const* e, std::size_t offset, std::size_t bytes) noexcept {
        if (!e) return errc::no_such_block;
        if (offset > e->bytes || bytes > e->bytes - offset) return errc::out_of_range;
        return {};
    }

    void forget(entry& e) noexcept {
        figures_.bytes -= e.bytes;
        --figures_.blocks;
        entry gone;
        table_.erase(e.id, gone);
    }

    void destroy(content* c) noexcept {
        figures_.stored_bytes -= c->home.bytes;
        --figures_.stored_blocks;
        delete c;
    }

    void show(content& c) noexcept {
        c.indexed = true;
        index_.insert(c.hash.low, c);
    }
    void hide(content& c) noexcept {
        if (std::exchange(c.indexed, false)) index_.erase(c);
    }

    /// Gives up a reference. The last takes the content from the index to `unused`.
    void release_hold(content* c, contents& unused) noexcept {
        if (!c || --c->refs) return;
        hide(*c);
        unused.push(*c);
    }

    /// Claims a block for freeing. It is gone at once if its content is null or shared; else it goes with its
    /// content.
    void claim(entry& e, contents& unused) noexcept {
        if (content* const c = e.content; c && c->refs == 1) {
            e.claimed = true;
            c->last   = &e;
            c->found  = c->indexed;
        }
        release_hold(e.content, unused);
        if (!e.claimed) forget(e);
    }

    content* match(content* c, content_hash const& h, std::size_t bytes) const noexcept {
        while (c && (c->hash != h || c->home.bytes != bytes)) c = index_.next(*c);
        return c;
    }

    /// Finds an indexed content for which is_same(home) holds, and takes a reference to it. Passes over contents
    /// whose hash is equal by chance. Gives up the lock for each comparison. Null: there is none, and the lock was
    /// held since the last look.
    template <class Same>
    content* take_equal(content_hash const& h, std::size_t bytes, Same is_same, contents& unused, lock& guard) {
        content* c = match(index_.first(h.low), h, bytes);
        while (c) {
            ++c->refs;
            bool const same = unlocked(guard, [&] { return is_same(c->home); });
            if (same) return c;
            ++figures_.collisions;
            content* const after = match(index_.next(*c), h, bytes);
            release_hold(c, unused);
            c = after;
        }
        return nullptr;
    }

    /// Makes the block share an equal content, of hash `h`. If there is none, indexes the block's own content,
    /// which `has_it`, and returns false.
    template <class Same>
    bool share(entry& e, content_hash const& h, Same is_same, bool has_it, lock& guard) {
        contents       unused;
        content* const equal = take_equal(h, e.bytes, is_same, unused, guard);
        if (equal) {
            release_hold(std::exchange(e.content, equal), unused);
            ++figures_.merged;
        } else if (has_it) {
            e.content->hash = h;
            show(*e.content);
        }
        free_unused(unused, guard);
        return equal != nullptr;
    }

    result<void> write_whole(entry& e, std::span<std::byte const> in, lock& guard) {
        auto const h       = unlocked(guard, [&] { return upstream_.hash_of(in); });
        auto const is_same = [&](block home) { return upstream_.equals(home, 0, in); };
        if (h && share(e, *h, is_same, false, guard)) return {};
        if (std::error_code const wrong = write_part(e, 0, in, guard)) return wrong;
        if (h) share(e, *h, is_same, true, guard);
        return {};
    }

    /// Writes to the block's own content, or to a copy that becomes its content. On error a shared content stays.
    std::error_code write_part(entry& e, std::size_t offset, std::span<std::byte const> in, lock& guard) {
        content* const old = e.content;
        if (old && old->refs == 1) {
            hide(*old);
            result<void> const written =
                unlocked(guard, [&] { return upstream_.store->write(old->home, offset, in); });
            return written ? std::error_code() : written.error();
        }
        guard.unlock();
        std::error_code          wrong;
        std::unique_ptr<content> copy = make(e, wrong);
        if (copy) {
            std::size_t const end = offset + in.size();
            result<void>      r   = upstream_.store->write(copy->home, offset, in);
            if (r && old) r = upstream_.copy(old->home, copy->home, 0, offset);
            if (r && old) r = upstream_.copy(old->home, copy->home, end, e.bytes - end);
            if (!r) wrong = r.error();
        }
        guard.lock();
        contents unused;
        if (!wrong) {
            release_hold(std::exchange(e.content, copy.release()), unused);
            figures_.parted += old != nullptr;
        } else if (copy) {
            unused.push(*copy.release());
        }
        free_unused(unused, guard);
        return wrong;
    }

    /// Reads the block back to find an equal one. If that fails, the block is merely not shared.
    void merge(entry& e, lock& guard) {
        content* const own = e.content;
        if (!own || own->indexed || own->refs != 1) return;
        auto const h = unlocked(guard, [&] { return upstream_.hash_of(own->home); });
        if (h) share(e, *h, [&](block home) { return upstream_.equals(home, own->home); }, true, guard);
    }

    void free_unused(contents& unused, lock& guard) noexcept {
        while (content* const c = unused.pop()) {
            if (unlocked(guard, [&] { return upstream_.drop(c->home); })) destroy(c);
            else left_.push(*c);
        }
    }

    // --- called without the lock --------------------------------------------------------------------------------

    /// Makes a content for this block alone, of unspecified bytes. On error returns null and sets `wrong`.
    std::unique_ptr<content> make(entry const& e, std::error_code& wrong) {
        std::unique_ptr<content> c(new (std::nothrow) content);
        std::size_t              stored = 0;
        {
            lock const guard(lock_);
            figures_.stored_bytes += e.bytes;
            stored = ++figures_.stored_blocks;
        }
        if (!c || !gather_.reserve(stored)) {
            wrong = errc::memory_full;
        } else if (result<block> const b = upstream_.store->allocate(e.bytes, e.alignment)) {
            c->home = *b;
            return c;
        } else {
            wrong = b.error();
        }
        lock const guard(lock_);
        figures_.stored_bytes -= e.bytes;
        --figures_.stored_blocks;
        return nullptr;
    }

    dedup_upstream<Upstream, Hasher> const upstream_;
    block_table<entry>                     table_;  ///< its lock is taken inside lock_
    gather_space                           gather_;
    mutable fork_mutex                     lock_;  ///< guards members without a lock of their own
    dedup_figures                          figures_;
    contents                               left_;
    hash_index<content>                    index_;
};

}  // namespace tenure::detail

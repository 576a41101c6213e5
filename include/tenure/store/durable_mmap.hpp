// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

// Opt-in: mmap_store::open(). Needs LMDB and libxxhash (Debian: liblmdb-dev, libxxhash-dev).

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tenure/detail/base/byte_limit.hpp>
#include <tenure/detail/base/fork_list.hpp>
#include <tenure/detail/space/file_space.hpp>
#include <tenure/detail/space/file_window.hpp>
#include <tenure/error.hpp>
#include <tenure/result.hpp>
#include <tenure/store/concept.hpp>
#include <tenure/store/durable_mmap/durable_files.hpp>
#include <tenure/store/durable_mmap/durable_index.hpp>
#include <tenure/store/durable_mmap/durable_sync.hpp>
#include <tenure/store/mmap.hpp>

namespace tenure {

/// Blocks in a mapped file that can be kept by name and then outlive the process. The store's directory has the
/// files data, catalog and lock (docs/durable-format.md). Each block has pages of its own.
///
/// What sync() promises: on return, contents and names of its blocks are on stable storage (as far as fdatasync()
/// puts them there), all names of one call together. A crash at any later moment, also in another sync(), leaves
/// that version whole and under its name, until a sync() with a newer one has returned. For this, writing to a
/// synced block, by write() or through address(), changes this process's memory and no longer the file; the
/// block's next sync() writes a changed block to a new place. (So a synced block costs memory for pages that
/// change later, and a changed one is written whole.) When a block's name goes to another, or the block is freed,
/// that is on stable storage after the next sync() of the other, or of any.
///
/// A kept block is verified when it is first read or mapped after an open: errc::corrupt, and never bad bytes.
/// Blocks that were not kept, or kept and not synced, are swept at the next open; their space comes back then at
/// the latest. One process at a time writes; others may read what was synced when they opened. Anything in the
/// place of the store's files that is not a regular file is not_a_file, and is not written to.
///
/// Thread-safe, except that no other call may overlap close(). A forked child may only destroy its copy.
class durable_mmap_store {
public:
    static constexpr store_traits traits{.addressable = true, .durable = true, .copyable = true};

    /// Opens the store. A writer makes the directory and a new store if there is none. Throws tenure::error, which
    /// names the file: store_in_use, with the process that has it open; corrupt; newer_format; not_a_file;
    /// store_full, if a new store does not fit; memory_full; or the system's. Cost: O(names); for a writer also a
    /// transaction and two fsync().
    explicit durable_mmap_store(std::filesystem::path const& directory, durable_options const& options = {})
        : options_(options),
          files_(directory, options.read_only),
          mapped_(window_.open(files_.data.get(), options.address_space, !options.read_only)),
          space_(files_.data.get(), {.end = window_.bytes(), .keep_warm = options.keep_warm}),
          index_(space_),
          syncer_(files_, window_, space_, index_),
          bytes_(options.capacity) {
        if (!mapped_) raise(error(detail::io_code(errno), "cannot map " + files_.data_path.string()));
        if (files_.data_bytes > window_.bytes())
            raise(error(errc::memory_full, "no addresses for " + files_.data_path.string()));
        bytes_.found(files_.load(space_, index_, window_.bytes()));
        if (!options.read_only) syncer_.reclaim();  // left by earlier writers
    }

    static std::shared_ptr<durable_mmap_store> open(std::filesystem::path const& directory,
                                                    durable_options const&       options = {}) {
        return std::make_shared<durable_mmap_store>(directory, options);
    }

    /// Closes the store if it is open, and drops errors.
    ~durable_mmap_store() {
        if (mark_.in_child()) {
            files_.catalog.abandon();
        } else if (!closed_) {
            [[maybe_unused]] auto const unheard = close();
        }
    }

    durable_mmap_store(durable_mmap_store const&)            = delete;
    durable_mmap_store& operator=(durable_mmap_store const&) = delete;

    /// Allocates with alignments up to 1 GiB. Errors: store_full (the disk or the capacity). Disk space that was
    /// freed and not synced counts; if the disk is full, this call syncs first.
    result<block> allocate(std::size_t bytes, std::size_t alignment) {
        if (auto const e = writable()) return e;
        if (!std::has_single_bit(alignment) || alignment > detail::file_window::alignment)
            return make_error_code(errc::bad_alignment);
        if (!bytes_.add(bytes)) return make_error_code(errc::store_full);
        auto e = space_.reserve(bytes, alignment);
        if (!e && e.error() == errc::store_full && sync({})) e = space_.reserve(bytes, alignment);
        if (e) {
            std::scoped_lock const guard(index_.mutex);
            if (std::uint64_t const id = index_.add(*e, {.bytes = bytes})) return block{id, bytes};
            space_.release_later(*e);
        }
        bytes_.take(bytes);
        return e ? make_error_code(errc::memory_full) : e.error();
    }

    /// Frees blocks. A kept block loses its name. Space of synced blocks comes back at the next sync().
    result<void> deallocate(std::span<block const> many) noexcept {
        if (auto const e = writable()) return e;
        bool all_lived = true;
        for (block const& b : many) {
            detail::durable_place  p;
            std::scoped_lock const guard(index_.mutex);
            if (index_.find(b) && index_.table.erase(b.id, p)) {
                index_.end(p);
                bytes_.take(b.bytes);
            } else {
                all_lived = false;
            }
        }
        space_.settle();
        if (!all_lived) return make_error_code(errc::no_such_block);
        return {};
    }

    /// Returns the block's address. The first call after an open reads and verifies the block. Memory is read-only
    /// in a store opened for reading. Errors: corrupt.
    result<std::byte*> address(block b) {
        if (auto const e = unusable()) return e;
        auto const p = range(b, 0, 0);
        if (p && !options_.read_only) {
            std::scoped_lock const guard(index_.mutex);
            if (detail::durable_place* const q = index_.find(b)) q->exposed = true;
        }
        return p;
    }

    result<void> read(block b, std::size_t offset, std::span<std::byte> out) {
        if (auto const e = unusable()) return e;
        auto const p = range(b, offset, out.size());
        if (!p) return p.error();
        if (!out.empty()) std::memcpy(out.data(), *p, out.size());
        return {};
    }

    result<void> write(block b, std::size_t offset, std::span<std::byte const> in) {
        if (auto const e = writable()) return e;
        auto const p = range(b, offset, in.size());
        if (!p) return p.error();
        if (in.empty()) return {};
        detail::durable_writer const w(index_, b);
        if (!w) return make_error_code(errc::no_such_block);
        if (!w.is_fresh() || in.size() < through_file) std::memcpy(*p, in.data(), in.size());
        else if (!detail::write_whole(files_.data.get(), window_.offset_of(*p), in)) return detail::io_code(errno);
        return {};
    }

    result<void> copy(block from, std::size_t from_offset, block to, std::size_t to_offset, std::size_t bytes) {
        if (auto const e = writable()) return e;
        auto const source = range(from, from_offset, bytes);
        if (!source) return source.error();
        auto const target = range(to, to_offset, bytes);
        if (!target) return target.error();
        if (!bytes) return {};
        detail::durable_writer const w(index_, to);
        if (!w) return make_error_code(errc::no_such_block);
        std::memcpy(*target, *source, bytes);
        return {};
    }

    /// Keeps the block under a name of 1 to 500 bytes of any value. A block that had the name ends; an earlier
    /// name of this block is lost. On stable storage after sync(). Errors: std::errc::filename_too_long,
    /// invalid_argument.
    result<void> keep(block b, std::string_view name) {
        if (auto const e = writable()) return e;
        return or_memory_full([&]() -> result<void> {
            std::scoped_lock const       guard(index_.mutex);
            detail::durable_place* const p = index_.find(b);
            if (!p) return make_error_code(errc::no_such_block);
            if (name.empty()) return make_error_code(std::errc::invalid_argument);
            if (name.size() > detail::longest_name) return make_error_code(std::errc::filename_too_long);
            bytes_.take(index_.give_name(b.id, *p, index_.name_of(name)));
            return {};
        });
    }

    result<block> find(std::string_view name) {
        if (auto const e = unusable()) return e;
        std::scoped_lock const guard(index_.mutex);
        auto const             i = index_.names.find(name);
        if (i == index_.names.end() || i->second.id == 0) return make_error_code(errc::no_such_block);
        return block{i->second.id, index_.table.find(i->second.id)->bytes};
    }

    /// Returns the names of kept blocks, in order. May throw std::bad_alloc.
    std::vector<std::string> names() const {
        std::vector<std::string> all;
        std::scoped_lock const   guard(index_.mutex);
        for (auto const& [text, n] : index_.names)
            if (n.id) all.push_back(text);
        return all;
    }

    /// Puts the blocks on stable storage, as promised above; of blocks without a name, the contents alone. Calls
    /// wait for each other. Cost: a pass of XXH3 over what may have changed, one fdatasync(), one transaction.
    ///
    /// Errors: store_replaced if the files are no longer under their names, with nothing done; store_full;
    /// memory_full; no_such_block. Any other error means that the disk cannot be trusted: every later call returns
    /// it, until the store is opened anew, with what was synced before.
    result<void> sync(std::span<block const> many) {
        if (auto const e = writable()) return e;
        return commit([&](detail::durable_round& r) -> std::error_code {
            for (block const& b : many) {
                detail::durable_place const* const p = index_.find(b);
                if (!p) return make_error_code(errc::no_such_block);
                r.add(b.id, *p);
            }
            return {};
        });
    }

    /// Syncs all kept blocks and releases the files. Addresses are invalid afterwards. On error the store stays
    /// open, and what was not synced still is not.
    result<void> close() {
        if (auto const e = unusable()) return e;
        if (!options_.read_only) {
            auto const synced = commit([&](detail::durable_round& r) -> std::error_code {
                for (auto const& [text, n] : index_.names)
                    if (n.id) r.add(n.id, *index_.table.find(n.id));
                return {};
            });
            if (!synced) return synced;
        }
        closed_ = true;
        window_.close();
        if (!options_.read_only) sweep();
        files_.catalog.close();
        files_.lock.release();
        return {};
    }

    store_usage usage() const noexcept { return {bytes_.used(), index_.table.size(), bytes_.most()}; }

    std::string describe() const {
        return "durable store in " + files_.directory.path().string() + (options_.read_only ? " (read-only)" : "");
    }

private:
    /// The size from which write() writes to the file itself if the block's address shows it. That is cheaper than
    /// a fault for each page, and than the pages' way back from the mapping at a sync.
    static constexpr std::size_t through_file = std::size_t{16} << 10;

    std::error_code unusable() const noexcept {
        if (mark_.in_child()) return make_error_code(errc::forked);
        return closed_ ? make_error_code(errc::store_closed) : std::error_code();
    }
    std::error_code writable() const noexcept {
        if (auto const e = unusable()) return e;
        return options_.read_only ? make_error_code(errc::read_only) : std::error_code();
    }

    template <class F>
    static result<void> or_memory_full(F f) {
        return detail::run_or<std::bad_alloc>(
            f, [](auto const&) -> result<void> { return make_error_code(errc::memory_full); });
    }

    template <class Pick>
    result<void> commit(Pick pick) {
        return or_memory_full([&]() -> result<void> {
            std::scoped_lock const one(sync_mutex_);
            if (auto const e = syncer_.commit(pick)) return e;
            syncer_.reclaim();
            return {};
        });
    }

    /// Frees the space of blocks that are not kept. Nothing points to them any more.
    void sweep() noexcept {
        std::scoped_lock const guard(sync_mutex_);
        index_.table.for_each([&](std::uint64_t, detail::durable_place const& p) {
            if (!p.name) space_.punch_out(p.home->where);
        });
        space_.trim(0);
    }

    result<detail::durable_place> place_of(block b) noexcept {
        std::scoped_lock const             guard(index_.mutex);
        detail::durable_place const* const p = index_.find(b);
        if (!p) return make_error_code(errc::no_such_block);
        return *p;
    }

    /// Returns where that part of the block is, once the block's contents are known to be right.
    result<std::byte*> range(block b, std::size_t offset, std::size_t n) {
        auto const p = place_of(b);
        if (!p) return p.error();
        if (offset > b.bytes || n > b.bytes - offset) return make_error_code(errc::out_of_range);
        if (p->state == detail::durable_state::unread)
            if (auto const e = verify(b)) return e;
        return window_.at(p->home->where.offset) + offset;
    }

    std::error_code verify(block b) {
        std::scoped_lock const one(verify_mutex_);
        auto const             p = place_of(b);
        if (!p) return p.error();
        if (p->state != detail::durable_state::unread) return {};  // another thread was first
        auto const& where = p->home->where;
        if (auto const e = files_.verify(where.offset, p->bytes, p->hash)) return e;
        if (!(options_.read_only ? window_.read_only(files_.data.get(), where, where.offset)
                                 : window_.copy_on_write(files_.data.get(), where, where.offset)))
            return detail::io_code(errno);
        std::scoped_lock const guard(index_.mutex);
        if (detail::durable_place* const q = index_.find(b)) q->state = detail::durable_state::sealed;
        return {};
    }

    durable_options const  options_;
    detail::fork_mark      mark_;
    detail::durable_files  files_;
    detail::file_window    window_;
    bool                   mapped_;
    detail::file_space     space_;
    detail::durable_index  index_;
    detail::durable_syncer syncer_;
    std::mutex             sync_mutex_;    ///< held while a sync writes
    std::mutex             verify_mutex_;  ///< held while a verification reads
    detail::byte_limit     bytes_;
    std::atomic<bool>      closed_{false};
};

static_assert(backing_store<durable_mmap_store>);

}  // namespace tenure

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <tenure/detail/base/byte_limit.hpp>
#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/file.hpp>
#include <tenure/detail/base/fork_list.hpp>
#include <tenure/detail/base/memory_tools.hpp>
#include <tenure/detail/blocks/block_table.hpp>
#include <tenure/detail/space/file_slots.hpp>
#include <tenure/detail/space/file_window.hpp>
#include <tenure/detail/space/scratch_file.hpp>
#include <tenure/error.hpp>
#include <tenure/result.hpp>
#include <tenure/store/concept.hpp>

namespace tenure {

class durable_mmap_store;  // <tenure/store/durable_mmap.hpp>, which needs LMDB and libxxhash

struct mmap_options {
    /// The most bytes in live blocks, as requested; 0: what the disk has room for.
    std::size_t capacity = 0;

    /// Freed bytes that keep their disk space for the next blocks: to punch a hole and fill it again costs ten
    /// times as much as reuse. The rest returns to the file system at once.
    std::size_t keep_warm = std::size_t{512} << 20;

    /// Addresses to reserve, which bounds how far apart blocks lie. Halved until the system has that many.
    std::size_t address_space = std::size_t{1} << 40;
};

/// How mmap_store::open() opens a durable store.
struct durable_options {
    bool        read_only = false;  ///< shows what is there now, for a process that keeps nothing
    std::size_t capacity  = 0;      ///< as in mmap_options
    std::size_t keep_warm = std::size_t{64} << 20;

    std::size_t address_space = std::size_t{1} << 40;
};

/// Blocks in a mapped temporary file: as much as the disk has room for, with memory only for what is in use. The
/// file has no name, so nothing is left of it however the process ends.
///
/// A block's disk space is reserved when it is allocated, so a full disk is store_full then and not a SIGBUS
/// later. (On btrfs and ZFS, which copy on write, that promise may fail.) The space returns to the file system
/// when the block is freed, except for options.keep_warm bytes. Blocks up to 64 KiB share pages and have their
/// memory at once; larger ones start at a page and get memory as they are touched.
///
/// A failing disk is an error of read() and write(); through address() it is a SIGBUS, as in every mapping of a
/// file.
///
/// Thread-safe. After fork() the blocks are the parent's alone; calls in a child return errc::forked.
class mmap_store {
public:
    static constexpr store_traits traits{.addressable = true, .copyable = true};

    /// Throws tenure::error, which names `directory` and the reason: it is missing, not a directory, read-only,
    /// not writable by this user; or no addresses are left (memory_full).
    explicit mmap_store(std::filesystem::path directory, mmap_options const& options = {})
        : fd_(detail::open_unnamed(directory)),
          directory_(std::move(directory)),
          mapped_(window_.open(fd_.get(), options.address_space)),
          space_(fd_.get(), {.end = window_.bytes(), .keep_warm = options.keep_warm}),
          slots_(space_, window_),
          bytes_(options.capacity) {
        if (!mapped_)
            raise(error(detail::io_code(errno), "no mapping of a scratch file in " + directory_.string()));
    }

    ~mmap_store() {
        if (mark_.in_child()) return;  // the blocks are the parent's
        blocks_.for_each([&](std::uint64_t, place const& p) { put(p); });
        if (TENURE_ASAN) detail::unpoison(window_.at(0), used_end_.load(std::memory_order_relaxed));
    }

    mmap_store(mmap_store const&)            = delete;
    mmap_store& operator=(mmap_store const&) = delete;

    /// Opens a durable store in `directory`, as durable_mmap_store::open(). Makes the directory if it is missing.
    template <class Store = durable_mmap_store>
    static std::shared_ptr<Store> open(std::filesystem::path const& directory,
                                       durable_options const&       options = {}) {
        static_assert(
            requires { sizeof(Store); }, "include <tenure/store/durable_mmap.hpp> for mmap_store::open()");
        return Store::open(directory, options);
    }

    /// Allocates with alignments up to 1 GiB. Contents are zeros or those of earlier blocks of this store. A small
    /// block takes about 50 ns; a larger one no system call while freed space fits. Errors: store_full (the disk
    /// or the capacity).
    result<block> allocate(std::size_t bytes, std::size_t alignment) {
        if (mark_.in_child()) return make_error_code(errc::forked);
        if (!std::has_single_bit(alignment) || alignment > detail::file_window::alignment)
            return make_error_code(errc::bad_alignment);
        if (!bytes_.add(bytes)) return make_error_code(errc::store_full);
        auto const p = take(bytes, alignment);
        if (p) {
            if (std::uint64_t const id = blocks_.insert(*p)) return block{id, bytes};
            put(*p);
            space_.settle();
        }
        bytes_.take(bytes);
        return p ? make_error_code(errc::memory_full) : p.error();
    }

    /// Gives neighbours that are freed together back to the file system in one piece, by one system call.
    result<void> deallocate(std::span<block const> many) noexcept {
        if (mark_.in_child()) return make_error_code(errc::forked);
        bool all_lived = true;
        for (block const& b : many) {
            place p;
            if (find(b, p) && blocks_.erase(b.id, p)) {
                put(p);
                bytes_.take(b.bytes);
            } else {
                all_lived = false;
            }
        }
        space_.settle();
        if (!all_lived) return make_error_code(errc::no_such_block);
        return {};
    }

    result<std::byte*> address(block b) {
        auto const at = range(b, 0, 0);
        if (!at) return at.error();
        return window_.at(*at);
    }

    result<void> read(block b, std::size_t offset, std::span<std::byte> out) {
        auto const from = range(b, offset, out.size());
        if (!from) return from.error();
        if (detail::read_whole(fd_.get(), *from, out)) return {};
        return errno ? detail::io_code(errno) : make_error_code(errc::corrupt);
    }

    result<void> write(block b, std::size_t offset, std::span<std::byte const> in) {
        auto const to = range(b, offset, in.size());
        if (!to) return to.error();
        if (detail::write_whole(fd_.get(), *to, in)) return {};
        return detail::io_code(errno);
    }

    /// Copies between mappings. (copy_file_range() would share disk blocks where it can, which leaves none
    /// reserved for later writes.)
    result<void> copy(block from, std::size_t from_offset, block to, std::size_t to_offset, std::size_t bytes) {
        auto const source = range(from, from_offset, bytes);
        if (!source) return source.error();
        auto const target = range(to, to_offset, bytes);
        if (!target) return target.error();
        if (bytes) std::memcpy(window_.at(*target), window_.at(*source), bytes);
        return {};
    }

    store_usage usage() const noexcept { return {bytes_.used(), blocks_.size(), bytes_.most()}; }

    /// Gives free space back to the file system, at once.
    void trim() noexcept { space_.trim(0); }

    /// Returns the file's disk space as the file system counts it.
    std::uint64_t bytes_on_disk() const noexcept { return detail::bytes_on_disk(fd_.get()); }

    /// Returns whether the directory is on a file system in memory. The store then saves no memory.
    bool on_tmpfs() const noexcept { return detail::on_tmpfs(fd_.get()); }

    std::string describe() const {
        return "scratch file in " + directory_.string() + (on_tmpfs() ? " (tmpfs: in memory)" : "");
    }

private:
    struct place {
        std::byte*         address;
        std::size_t        bytes;  ///< as requested
        detail::file_span* span;   ///< null: it has an extent of its own
    };

    result<place> take(std::size_t bytes, std::size_t alignment) noexcept {
        place p{nullptr, bytes, nullptr};
        if (detail::file_slots::fits(bytes, alignment)) {
            auto const s = slots_.take(bytes, alignment);
            if (!s) return s.error();
            p.address = s->address;
            p.span    = s->span;
        } else {
            auto const e = space_.reserve(bytes, alignment);
            if (!e) return e.error();
            p.address = window_.at(e->offset);
        }
        if (TENURE_ASAN) {
            auto const    end = static_cast<std::size_t>(p.address - window_.at(0)) + bytes;
            std::uint64_t old = used_end_.load(std::memory_order_relaxed);
            while (old < end && !used_end_.compare_exchange_weak(old, end, std::memory_order_relaxed)) {}
            detail::unpoison(p.address, bytes);
        }
        return p;
    }

    void put(place const& p) noexcept {
        if (p.span) return slots_.put({p.address, p.span});
        std::size_t const page  = detail::page_bytes();
        std::size_t const whole = (p.bytes + page - 1) / page * page;
        detail::run_given_back(p.address, p.bytes);
        space_.release_later({static_cast<std::uint64_t>(p.address - window_.at(0)), std::max(whole, page)});
    }

    bool find(block b, place& p) const noexcept { return blocks_.find(b.id, p) && p.bytes == b.bytes; }

    /// Returns the offset in the file. Errors: no_such_block, out_of_range, forked.
    result<std::uint64_t> range(block b, std::size_t offset, std::size_t n) const noexcept {
        if (mark_.in_child()) return make_error_code(errc::forked);
        place p;
        if (!find(b, p)) return make_error_code(errc::no_such_block);
        if (offset > p.bytes || n > p.bytes - offset) return make_error_code(errc::out_of_range);
        return static_cast<std::uint64_t>(p.address - window_.at(0)) + offset;
    }

    detail::fork_mark const    mark_;
    detail::unique_fd          fd_;
    std::filesystem::path      directory_;
    detail::file_window        window_;
    bool                       mapped_;
    detail::file_space         space_;
    detail::file_slots         slots_;
    detail::block_table<place> blocks_;
    detail::byte_limit         bytes_;
    std::atomic<std::uint64_t> used_end_{0};  ///< for AddressSanitizer
};

static_assert(backing_store<mmap_store>);

}  // namespace tenure

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <lmdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenure/detail/base/file.hpp>
#include <tenure/detail/base/os.hpp>
#include <tenure/error.hpp>
#include <tenure/store/durable_mmap/durable_format.hpp>
#include <tenure/store/durable_mmap/lmdb_image.hpp>

namespace tenure::detail {

/// The contents of a catalog; each record and all together were checked.
struct catalog_contents {
    bool           found = false;  ///< false: there is no catalog yet, or an empty one
    catalog_header header;

    struct named {
        std::string    name;
        catalog_record record;
    };
    std::vector<named> blocks;
};

/// Parses a catalog. Sets `transaction` to the commit that the file has, if that can be read. False: it is corrupt,
/// or its header, which is found then, has a later version.
inline bool parse_catalog(std::span<std::byte const> file, catalog_contents& out, std::uint64_t& transaction) {
    lmdb_image image(file);
    if (!image.begin()) return false;
    transaction         = image.transaction();
    std::uint64_t sum   = 0;
    bool const    whole = image.walk([&](std::string_view key, std::string_view value) {
        if (key == header_key) {
            if (value.size() < sizeof out.header) return false;
            std::memcpy(&out.header, value.data(), sizeof out.header);
            out.found = out.header.magic == catalog_magic;
            return out.found && value.size() == sizeof out.header &&
                   out.header.check == out.header.expected_check();
        }
        catalog_record r;
        if (key[0] != '\1' || value.size() != sizeof r || !out.found) return false;
        std::memcpy(&r, value.data(), sizeof r);
        if (r.check != r.expected_check(key)) return false;
        sum ^= r.check;
        out.blocks.push_back({std::string(key.substr(1)), r});
        return true;
    });
    return whole && (!out.found || (sum == out.header.sum && out.blocks.size() == out.header.blocks));
}

/// Reads the catalog into memory and checks it there, without a lock: reads again what a commit has overtaken.
/// Throws tenure::error, which names the file.
inline catalog_contents read_catalog(int fd, std::filesystem::path const& file) {
    std::uint64_t last = ~std::uint64_t{0};
    for (int tries = 0;; ++tries) {
        struct ::stat about{};
        if (::fstat(fd, &about) != 0) raise(error(system_code(errno), "cannot read " + file.string()));
        // Holes read as any number of zeros, and no real catalog has many; see lmdb_image::begin().
        auto const size = static_cast<std::uint64_t>(about.st_size);
        if (size > std::uint64_t{64} << 20 && size / 64 > static_cast<std::uint64_t>(about.st_blocks) * 512)
            raise(error(errc::corrupt, file.string() + ": it is mostly holes"));
        std::vector<std::byte> bytes(size);
        if (bytes.empty()) return {};
        if (!read_whole(fd, 0, bytes) && errno) raise(error(system_code(errno), "cannot read " + file.string()));
        catalog_contents out;
        std::uint64_t    transaction = ~std::uint64_t{0};
        bool const       good        = parse_catalog(bytes, out, transaction);
        if (out.found && out.header.version > durable_version)
            raise(error(errc::newer_format, file.string() + ": version " + std::to_string(out.header.version)));
        if (good) return out;
        if (transaction == last || tries == 100) raise(error(errc::corrupt, file.string()));
        last = transaction;  // bad again without a commit in between is corrupt
    }
}

/// A name's new record, or its removal.
struct catalog_change {
    std::string_view      name;
    catalog_record const* record = nullptr;  ///< null: the name is removed
};

/// The catalog as its one writer has it: an LMDB environment in one file, changed by one transaction at a time. It
/// needs no lock of LMDB's: the store's own admits one writer, and readers do not use LMDB.
///
/// LMDB takes a short write on a full disk for a fault of the disk. So its room is limited to blocks reserved
/// beforehand: what does not fit is MDB_MAP_FULL, with nothing written.
class catalog_writer {
public:
    /// Opens the catalog `file`, which is open as `fd` and has passed read_catalog() or is empty. `fd` must stay
    /// open longer than this object. If /proc is there, LMDB opens the file by descriptor, not by name. Throws
    /// tenure::error.
    void open(int fd, std::filesystem::path const& file) {
        fd_               = fd;
        std::error_code e = open_environment(file);
        if (!e) e = grow();
        if (e && (e != errc::store_full || !env_)) raise(error(e, "cannot open " + file.string()));
    }

    void close() noexcept { env_.reset(); }
    void abandon() noexcept { [[maybe_unused]] MDB_env* const parents = env_.release(); }  // in a forked child

    /// Commits all of it to stable storage, or none. After store_full nothing was written; after other errors the
    /// outcome is unknown.
    std::error_code commit(std::span<catalog_change const> changes, catalog_header const& header) {
        if (!env_) return system_code(EBADF);
        if (!within_size_limit(map_size_)) return make_error_code(errc::store_full);
        for (;;) {
            int const r = try_commit(changes, header);
            if (r == 0) return {};
            if (r != MDB_MAP_FULL) return is_broken() ? system_code(r > 0 ? r : EIO) : code_of(r);
            if (auto const e = grow()) return e;
        }
    }

private:
    struct closer {
        void operator()(MDB_env* e) const noexcept { ::mdb_env_close(e); }
    };

    std::error_code open_environment(std::filesystem::path const& file) {
        struct ::stat about{};
        if (::fstat(fd_, &about) != 0) return system_code(errno);
        map_size_ = rounded(std::max(static_cast<std::size_t>(about.st_size), least_step()));
        if (about.st_size == 0)
            if (auto const e = back()) return e;

        std::string const same   = "/proc/self/fd/" + std::to_string(fd_);
        char const* const path   = ::access(same.c_str(), F_OK) == 0 ? same.c_str() : file.c_str();
        MDB_env*          env    = nullptr;
        MDB_envinfo       info   = {};
        int               opened = -1;
        int               r      = ::mdb_env_create(&env);

        std::unique_ptr<MDB_env, closer> made(env);
        if (r == 0) r = ::mdb_env_set_mapsize(env, map_size_);
        if (r == 0) r = ::mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK | MDB_NORDAHEAD, 0644);
        if (r == 0) r = ::mdb_env_info(env, &info);
        if (r == 0) r = ::mdb_env_get_fd(env, &opened);
        if (r != 0) return code_of(r);
        if (!is_same(fd_, opened)) return make_error_code(errc::store_replaced);
        ::fcntl(opened, F_SETFD, FD_CLOEXEC);  // which LMDB does not set
        map_size_ = info.me_mapsize;           // more than the file if free pages were never written
        env_      = std::move(made);
        return {};
    }

    static std::size_t rounded(std::size_t n) noexcept {
        return (n + page_bytes() - 1) / page_bytes() * page_bytes();
    }
    static std::size_t least_step() noexcept { return 4 * page_bytes(); }

    static bool is_same(int a, int b) noexcept {
        struct ::stat x{}, y{};
        return ::fstat(a, &x) == 0 && ::fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    }

    /// Doubles the room, or adds less if the disk has less.
    std::error_code grow() noexcept {
        std::size_t const had = map_size_;
        std::error_code   e;
        for (std::size_t more = std::max(had, std::size_t{64} << 10); more >= least_step(); more /= 2) {
            map_size_ = rounded(had + more);
            if (e = back(); !e) {
                int const r = ::mdb_env_set_mapsize(env_.get(), map_size_);
                if (r == 0) return {};
                env_.reset();  // it has no map now, and LMDB would not check
                return r > 0 ? system_code(r) : code_of(r);
            }
            map_size_ = had;
            if (e != errc::store_full) break;
        }
        return e;
    }

    /// Reserves disk blocks for the whole map. The file stays as long as LMDB wrote it.
    std::error_code back() const noexcept {
        if (!within_size_limit(map_size_)) return make_error_code(errc::store_full);
        int r = 0;
        do r = ::fallocate(fd_, FALLOC_FL_KEEP_SIZE, 0, static_cast<::off_t>(map_size_));
        while (r != 0 && errno == EINTR);
        return r == 0 || errno == EOPNOTSUPP || errno == ENOSYS ? std::error_code() : io_code(errno);
    }

    static MDB_val value(void const* p, std::size_t n) noexcept { return {n, const_cast<void*>(p)}; }

    int try_commit(std::span<catalog_change const> changes, catalog_header const& header) {
        MDB_txn* t = nullptr;
        if (int const r = ::mdb_txn_begin(env_.get(), nullptr, 0, &t)) return r;
        MDB_dbi db = 0;
        int     r  = ::mdb_dbi_open(t, nullptr, 0, &db);
        for (auto c = changes.begin(); r == 0 && c != changes.end(); ++c) {
            std::string const key = key_of(c->name);
            MDB_val           k   = value(key.data(), key.size());
            if (c->record) {
                MDB_val v = value(c->record, sizeof *c->record);
                r         = ::mdb_put(t, db, &k, &v, 0);
            } else {
                r = ::mdb_del(t, db, &k, nullptr);
            }
        }
        if (r == 0) {
            MDB_val k = value(header_key.data(), header_key.size()), v = value(&header, sizeof header);
            r = ::mdb_put(t, db, &k, &v, 0);
        }
        if (r == 0) return ::mdb_txn_commit(t);
        ::mdb_txn_abort(t);
        return r;
    }

    /// Returns whether LMDB failed where it does not know what is on the disk, and refuses to go on.
    bool is_broken() const noexcept {
        MDB_txn*  t = nullptr;
        int const r = ::mdb_txn_begin(env_.get(), nullptr, MDB_RDONLY, &t);
        if (r == 0) ::mdb_txn_abort(t);
        return r != 0;
    }

    static std::error_code code_of(int r) noexcept {
        if (r > 0) return io_code(r);
        return r == MDB_PANIC ? system_code(EIO) : make_error_code(errc::corrupt);
    }

    std::unique_ptr<MDB_env, closer> env_;
    int                              fd_       = -1;
    std::size_t                      map_size_ = 0;
};

}  // namespace tenure::detail

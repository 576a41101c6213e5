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

#include <tenure/detail/durable_format.hpp>
#include <tenure/detail/file.hpp>
#include <tenure/detail/lmdb_image.hpp>
#include <tenure/error.hpp>

namespace tenure::detail {

/// What a catalog says, checked: every record and all of them together.
struct catalog_contents {
    bool           found = false;  ///< false: there is none yet, or an empty one
    catalog_header header;

    struct named {
        std::string    name;
        catalog_record record;
    };
    std::vector<named> blocks;
};

namespace reading_catalog {

enum class outcome { good, bad, newer };

/// `transaction`: the commit that this is, as far as it is known.
inline outcome parse(std::span<std::byte const> file, catalog_contents& out, std::uint64_t& transaction) {
    lmdb_image image(file);
    if (!image.begin()) return outcome::bad;
    transaction         = image.transaction();
    bool          newer = false;
    std::uint64_t sum   = 0;
    bool const    whole = image.walk([&](std::string_view key, std::string_view value) {
        if (key == header_key) {
            if (value.size() < sizeof out.header) return false;
            std::memcpy(&out.header, value.data(), sizeof out.header);
            if (out.header.magic != catalog_magic) return false;
            newer     = out.header.version > durable_version;
            out.found = true;
            return newer || (value.size() == sizeof out.header && out.header.check == out.header.expected_check());
        }
        if (newer) return true;  // later versions may have other records
        catalog_record r;
        if (key[0] != '\1' || value.size() != sizeof r || !out.found) return false;
        std::memcpy(&r, value.data(), sizeof r);
        if (r.check != r.expected_check(key)) return false;
        sum ^= r.check;
        out.blocks.push_back({std::string(key.substr(1)), r});
        return true;
    });
    if (newer) return outcome::newer;
    if (!whole || (out.found && (sum != out.header.sum || out.blocks.size() != out.header.blocks)))
        return outcome::bad;
    return outcome::good;
}

}  // namespace reading_catalog

/// Reads all of it into memory and checks it there, so it needs no lock against a writer: what was overtaken by a
/// commit is read again. Throws tenure::error naming the file.
inline catalog_contents read_catalog(std::filesystem::path const& file) {
    unique_fd const fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) {
        if (errno == ENOENT) return {};
        throw error(system_code(errno), "cannot open " + file.string());
    }
    std::uint64_t last = ~std::uint64_t{0};
    for (int tries = 0;; ++tries) {
        struct ::stat about{};
        if (::fstat(fd.get(), &about) != 0) throw error(system_code(errno), "cannot read " + file.string());
        std::vector<std::byte> bytes(static_cast<std::size_t>(about.st_size));
        if (bytes.empty()) return {};
        if (!read_whole(fd.get(), 0, bytes) && errno)
            throw error(system_code(errno), "cannot read " + file.string());
        catalog_contents out;
        std::uint64_t    transaction = ~std::uint64_t{0};
        auto const       o           = reading_catalog::parse(bytes, out, transaction);
        if (o == reading_catalog::outcome::good) return out;
        if (o == reading_catalog::outcome::newer)
            throw error(errc::newer_format, file.string() + ": version " + std::to_string(out.header.version));
        if (transaction == last || tries == 100) throw error(errc::corrupt, file.string());
        last = transaction;  // bad, and no commit in between: then it is bad
    }
}

/// A name's new record, or its removal.
struct catalog_change {
    std::string_view      name;
    catalog_record const* record = nullptr;  ///< null: the name goes
};

/// The catalog as its one writer has it: an LMDB environment in one file, changed by a transaction at a time. Of
/// LMDB's locks it needs none: the store's own sees to it that there is one writer, and readers read by themselves.
class catalog_writer {
public:
    /// `file` has passed read_catalog(), or is not there. Throws tenure::error.
    void open(std::filesystem::path const& file) {
        std::error_code ignored;  // no file: of no size
        auto const      size = std::filesystem::file_size(file, ignored);
        map_size_  = std::max<std::size_t>(std::size_t{1} << 20, ignored ? 0 : static_cast<std::size_t>(size) * 2);
        MDB_env* e = nullptr;
        int      r = ::mdb_env_create(&e);
        env_.reset(e);
        if (r == 0) r = ::mdb_env_set_mapsize(e, map_size_);
        if (r == 0) r = ::mdb_env_open(e, file.c_str(), MDB_NOSUBDIR | MDB_NOLOCK | MDB_NORDAHEAD, 0644);
        if (r != 0) throw error(code_of(r), "cannot open " + file.string());
    }

    bool is_open() const noexcept { return env_ != nullptr; }
    void close() noexcept { env_.reset(); }
    void abandon() noexcept { [[maybe_unused]] MDB_env* const parents = env_.release(); }  // in a forked child

    /// All of it, on stable storage, or nothing. store_full: surely nothing; after other errors who knows.
    std::error_code commit(std::span<catalog_change const> changes, catalog_header const& header) {
        for (;;) {
            int const r = try_commit(changes, header);
            if (r == 0) return {};
            if (r != MDB_MAP_FULL) return code_of(r);
            if (int const e = ::mdb_env_set_mapsize(env_.get(), map_size_ * 2)) return code_of(e);
            map_size_ *= 2;
        }
    }

private:
    struct closer {
        void operator()(MDB_env* e) const noexcept { ::mdb_env_close(e); }
    };

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

    static std::error_code code_of(int r) noexcept {
        if (r > 0) return io_code(r);
        return r == MDB_PANIC ? system_code(EIO) : make_error_code(errc::corrupt);
    }

    std::unique_ptr<MDB_env, closer> env_;
    std::size_t                      map_size_ = 0;
};

}  // namespace tenure::detail

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
#include <new>
#include <random>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenure/detail/base/file.hpp>
#include <tenure/detail/base/os.hpp>
#include <tenure/detail/space/file_space.hpp>
#include <tenure/error.hpp>
#include <tenure/store/dedup/hash.hpp>
#include <tenure/store/durable_mmap/catalog.hpp>
#include <tenure/store/durable_mmap/durable_format.hpp>
#include <tenure/store/durable_mmap/durable_index.hpp>
#include <tenure/store/durable_mmap/file_directory.hpp>

namespace tenure::detail {

/// The files of a durable store, opened and checked; see docs/durable-format.md. The constructor throws
/// tenure::error, which names the file.
struct durable_files {
    file_directory        directory;
    std::filesystem::path data_path, catalog_path;
    owner_lock            lock;
    unique_fd             data, catalog_file;
    data_header           header;
    std::uint64_t         data_bytes = 0;
    catalog_contents      contents;
    catalog_writer        catalog;
    bool settled = false;  ///< this writer has committed: the version in force is on stable storage

    durable_files(std::filesystem::path const& where, bool read_only)
        : directory(where, !read_only),
          data_path(where / "data"),
          catalog_path(where / "catalog"),
          lock(directory, !read_only) {
        data = directory.open("data", read_only ? O_RDONLY : O_RDWR);
        if (data) lock.add(data.get(), "data");
        else if (read_only) raise(error(system_code(ENOENT), "cannot open " + data_path.string()));
        else make_data();
        read_header();
        catalog_file = directory.open("catalog", read_only ? O_RDONLY : O_RDWR);
        // The catalog is read after the header and before the size. A writer only adds commits and data meanwhile,
        // so the checks still hold.
        if (catalog_file) contents = read_catalog(catalog_file.get(), catalog_path);
        read_size();
        check_contents();
        if (!read_only) begin_writing();
    }

    /// Makes the catalog's records unread blocks. Retires the rest of the file, which earlier writers left behind.
    /// Returns the bytes in blocks. Throws tenure::error. O(n log n), once.
    std::size_t load(file_space& space, durable_index& index, std::uint64_t addresses) {
        std::uint64_t const page   = page_bytes();
        auto                blocks = std::exchange(contents.blocks, {});
        std::ranges::sort(blocks, {}, [](auto const& b) { return b.record.offset; });
        std::size_t   bytes = 0;
        std::uint64_t at    = 0;
        auto const    leave = [&](std::uint64_t end) {
            if (end > at && space.claim({at, end - at})) space.retire({at, end - at});
        };
        auto const take = [&](extent_in_file e) {
            if (e.offset < at || !space.claim(e))
                raise(error(errc::corrupt, catalog_path.string() + ": blocks overlap"));
            leave(e.offset);
            at = e.end();
        };
        take({0, data_header::bytes});
        for (auto const& [name, r] : blocks) {
            extent_in_file const e = extent_of(r.offset, r.bytes, page);
            take(e);
            durable_name& n = index.name_of(name);
            n.id            = index.add(
                e, {.bytes = r.bytes, .hash = r.hash, .name = &n, .state = durable_state::unread, .hashed = true});
            if (!n.id) raise(error(errc::memory_full, catalog_path.string()));
            n.committed          = index.table.find(n.id)->home;
            n.committed->retires = true;
            n.check              = r.check;
            index.use(n.committed);
            bytes += r.bytes;
        }
        leave(std::min((data_bytes + page - 1) / page * page, addresses));
        return bytes;
    }

    /// Returns store_replaced if the next open would not find what is written here.
    std::error_code still_named() const noexcept {
        bool const named = directory.names("data", data.get()) && directory.names("catalog", catalog_file.get());
        return named ? std::error_code() : make_error_code(errc::store_replaced);
    }

    /// Checks bytes of the data file against their hash. Uses read(), since a failing disk would be a signal in a
    /// mapping. Errors: corrupt, memory_full, or the system's.
    std::error_code verify(std::uint64_t offset, std::uint64_t bytes, content_hash const& expected) const {
        auto const n = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, std::size_t{256} << 10));
        std::unique_ptr<std::byte[]> const buffer(new (std::nothrow) std::byte[n]);
        if (!buffer) return make_error_code(errc::memory_full);
        xxh3_128 hasher;
        do {
            std::span const part(buffer.get(), static_cast<std::size_t>(std::min<std::uint64_t>(bytes, n)));
            if (!read_whole(data.get(), offset, part))
                return errno ? io_code(errno) : make_error_code(errc::corrupt);
            if (!hasher.update(part)) return make_error_code(errc::memory_full);
            offset += part.size();
            bytes -= part.size();
        } while (bytes);
        return hasher.digest() == expected ? std::error_code() : make_error_code(errc::corrupt);
    }

    /// Records that so many commits are on stable storage: a hint, so that no older catalog passes for this one.
    void write_header(std::uint64_t committed) noexcept {
        header.committed = committed;
        header.check     = header.expected_check();
        [[maybe_unused]] bool const written =
            write_whole(data.get(), committed % data_header::places * data_header::apart, bytes_of(header));
    }

private:
    static std::span<std::byte const> bytes_of(data_header const& h) noexcept {
        return std::as_bytes(std::span(&h, 1));
    }

    /// Makes the data file, which gets its name when it is whole.
    void make_data() {
        if (directory.has("catalog"))
            raise(error(errc::corrupt, data_path.string() + " is missing, and there is a catalog"));
        std::random_device dice;
        for (auto& n : header.store) n = std::uint64_t{dice()} << 32 | dice();
        header.check = header.expected_check();
        data         = make_new("data.new");
        std::vector<std::byte> all(data_header::bytes);
        for (std::uint64_t i = 0; i < data_header::places; ++i)
            std::memcpy(all.data() + i * data_header::apart, &header, sizeof header);
        if (!write_whole(data.get(), 0, all) || ::fsync(data.get()) != 0)
            raise(error(io_code(errno), "cannot make " + data_path.string()));
        directory.rename("data.new", "data");
        directory.sync();  // before there is a catalog, which must not be without data
    }

    /// Makes an empty, locked file, also from one that an interrupted process left.
    unique_fd make_new(char const* name) {
        unique_fd made = directory.open(name, O_RDWR | O_CREAT);
        if (!made) raise(error(system_code(ENOENT), "cannot make " + directory.file(name).string()));
        lock.add(made.get(), name);
        if (!directory.names(name, made.get()))  // another process has just made and named it
            raise(error(errc::store_in_use, directory.path().string()));
        if (::ftruncate(made.get(), 0) != 0)
            raise(error(io_code(errno), "cannot make " + directory.file(name).string()));
        return made;
    }

    /// Begins with a commit. The version read so far may be in the page cache but not on the disk: if a writer was
    /// killed in a commit, or its disk failed then, it is undecided which version a crash would bring back. The
    /// commit decides that; what its version does not name can then be given up.
    void begin_writing() {
        bool const is_new = !catalog_file;
        if (is_new) catalog_file = make_new("catalog.new");
        else lock.add(catalog_file.get(), "catalog");
        if (!directory.names("data", data.get()) || (!is_new && !directory.names("catalog", catalog_file.get())))
            raise(error(errc::store_in_use, directory.path().string() + ": somebody has just replaced its files"));
        lock.sign();
        catalog.open(catalog_file.get(), directory.file(is_new ? "catalog.new" : "catalog"));

        catalog_header next = contents.header;
        next.store          = header.store;
        ++next.sequence;
        next.check   = next.expected_check();
        auto const e = catalog.commit({}, next);
        // A full disk may have no room for the commit. Its blocks can still be read and freed.
        if (e && (e != errc::store_full || !contents.found))
            raise(error(e, "cannot write " + catalog_path.string()));
        if (is_new) directory.rename("catalog.new", "catalog");
        directory.sync();
        if (e) return;
        contents.header = next;
        settled         = true;
        write_header(next.sequence);
    }

    void read_size() {
        struct ::stat about{};
        if (::fstat(data.get(), &about) != 0) raise(error(system_code(errno), "cannot read " + data_path.string()));
        data_bytes = static_cast<std::uint64_t>(about.st_size);
    }

    void read_header() {
        bool found = false;
        for (std::uint64_t i = 0; i < data_header::places; ++i) {
            data_header h;
            if (!read_whole(data.get(), i * data_header::apart, std::as_writable_bytes(std::span(&h, 1)))) {
                if (errno) raise(error(system_code(errno), "cannot read " + data_path.string()));
                break;
            }
            if (h.magic != data_magic) continue;
            if (h.version > durable_version)
                raise(error(errc::newer_format, data_path.string() + ": version " + std::to_string(h.version)));
            if (h.check != h.expected_check() || (found && h.committed < header.committed)) continue;
            header = h;
            found  = true;
        }
        if (!found) raise(error(errc::corrupt, data_path.string() + ": no header of a durable store"));
    }

    void check_contents() const {
        auto const bad = [](std::filesystem::path const& file, std::string const& why) {
            raise(error(errc::corrupt, file.string() + ": " + why));
        };
        catalog_header const& h = contents.header;
        if (!contents.found && header.committed != 0) bad(catalog_path, "missing or empty, and the data is not");
        if (contents.found && h.store != header.store)
            bad(catalog_path, "of another store than " + data_path.string());
        if (h.sequence < header.committed)
            bad(catalog_path, "older than " + data_path.string() + ": commit " + std::to_string(h.sequence) +
                                  ", and there were " + std::to_string(header.committed));
        std::uint64_t const page = page_bytes();
        for (auto const& [name, r] : contents.blocks) {
            if (r.offset % page || r.offset < data_header::bytes || r.offset > data_bytes ||
                r.bytes > data_bytes - r.offset || extent_of(r.offset, r.bytes, page).end() > data_bytes)
                bad(data_path, "ends before \"" + name + "\" does, or was truncated");
        }
    }
};

}  // namespace tenure::detail

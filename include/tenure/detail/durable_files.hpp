// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenure/detail/catalog.hpp>
#include <tenure/detail/durable_format.hpp>
#include <tenure/detail/file.hpp>
#include <tenure/detail/os.hpp>
#include <tenure/detail/owner_lock.hpp>
#include <tenure/error.hpp>

namespace tenure::detail {

/// The files of a durable store, opened and checked; see docs/durable-format.md. The constructor throws
/// tenure::error, which names the file.
struct durable_files {
    std::filesystem::path directory, data_path, catalog_path;
    owner_lock            lock;
    unique_fd             data;
    data_header           header;
    std::uint64_t         data_bytes = 0;
    catalog_contents      contents;
    catalog_writer        catalog;

    durable_files(std::filesystem::path const& where, bool read_only)
        : directory(where), data_path(where / "data"), catalog_path(where / "catalog") {
        if (!read_only && ::mkdir(where.c_str(), 0755) != 0 && errno != EEXIST)
            throw error(system_code(errno), "cannot make the directory " + where.string());
        struct ::stat about{};
        if (::stat(where.c_str(), &about) != 0)
            throw error(system_code(errno), "no durable store in " + where.string());
        if (!S_ISDIR(about.st_mode)) throw error(system_code(ENOTDIR), "no durable store in " + where.string());

        lock = read_only ? owner_lock::for_reading(where / "lock") : owner_lock::for_writing(where / "lock");
        data = unique_fd(::open(data_path.c_str(), (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC));
        if (!data && errno == ENOENT && !read_only) make_data();
        if (!data) throw error(system_code(errno), "cannot open " + data_path.string());
        read_header();
        contents = read_catalog(catalog_path);  // after the header, for it may only grow meanwhile
        check_contents();
        if (read_only) return;
        catalog.open(catalog_path);
        if (contents.found) return;
        contents.header.store = header.store;
        contents.header.check = contents.header.expected_check();
        if (auto const e = catalog.commit({}, contents.header))
            throw error(e, "cannot write " + catalog_path.string());
        sync_directory();
    }

    /// That so many commits are on stable storage: a hint, without which an older catalog would pass for this one.
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

    /// It gets its name when it is whole.
    void make_data() {
        if (std::filesystem::exists(catalog_path))
            throw error(errc::corrupt, data_path.string() + " is missing, and there is a catalog");
        std::random_device dice;
        for (auto& n : header.store) n = std::uint64_t{dice()} << 32 | dice();
        header.check                           = header.expected_check();
        std::filesystem::path const unfinished = directory / "data.new";

        data    = unique_fd(::open(unfinished.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
        bool ok = static_cast<bool>(data) && ::ftruncate(data.get(), data_header::bytes) == 0;
        for (std::uint64_t i = 0; ok && i < data_header::places; ++i)
            ok = write_whole(data.get(), i * data_header::apart, bytes_of(header));
        ok = ok && ::fsync(data.get()) == 0 && ::rename(unfinished.c_str(), data_path.c_str()) == 0;
        if (!ok) throw error(io_code(errno), "cannot make " + data_path.string());
        sync_directory();
    }

    void sync_directory() const {
        unique_fd const d(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!d || ::fsync(d.get()) != 0) throw error(system_code(errno), "cannot sync " + directory.string());
    }

    void read_header() {
        struct ::stat about{};
        if (::fstat(data.get(), &about) != 0) throw error(system_code(errno), "cannot read " + data_path.string());
        data_bytes = static_cast<std::uint64_t>(about.st_size);
        bool found = false;
        for (std::uint64_t i = 0; i < data_header::places; ++i) {
            data_header h;
            if (!read_whole(data.get(), i * data_header::apart, std::as_writable_bytes(std::span(&h, 1)))) {
                if (errno) throw error(system_code(errno), "cannot read " + data_path.string());
                break;
            }
            if (h.magic != data_magic) continue;
            if (h.version > durable_version)
                throw error(errc::newer_format, data_path.string() + ": version " + std::to_string(h.version));
            if (h.check != h.expected_check() || (found && h.committed < header.committed)) continue;
            header = h;
            found  = true;
        }
        if (!found) throw error(errc::corrupt, data_path.string() + ": no header of a durable store");
    }

    void check_contents() const {
        auto const bad = [](std::filesystem::path const& file, std::string const& why) {
            throw error(errc::corrupt, file.string() + ": " + why);
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

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include <sys/mount.h>

/// A directory of the test's own, on a real disk where there is one, gone with this.
class temporary_directory {
public:
    temporary_directory() {
        for (auto const& where : {std::filesystem::temp_directory_path(), std::filesystem::path("/var/tmp")})
            if (make_in(where)) return;
    }
    explicit temporary_directory(std::filesystem::path const& where) { make_in(where); }
    temporary_directory(temporary_directory const&)            = delete;
    temporary_directory& operator=(temporary_directory const&) = delete;
    ~temporary_directory() {
        std::error_code ignored;  // the system clears /tmp
        std::filesystem::remove_all(path_, ignored);
    }

    std::filesystem::path const& path() const { return path_; }

    bool empty() const { return std::filesystem::is_empty(path_); }

private:
    bool make_in(std::filesystem::path const& where) {
        std::string name = (where / "tenure-test-XXXXXX").string();
        if (!::mkdtemp(name.data())) return false;
        path_ = name;
        return true;
    }

    std::filesystem::path path_;
};

/// A file system of so many bytes, where the user of the test may mount one.
class small_disk {
public:
    explicit small_disk(std::size_t bytes) {
        std::string const options = "size=" + std::to_string(bytes);
        mounted_ = ::mount("none", directory_.path().c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) == 0;
    }
    ~small_disk() {
        if (mounted_) ::umount2(directory_.path().c_str(), MNT_DETACH);
    }

    explicit                     operator bool() const { return mounted_; }
    std::filesystem::path const& path() const { return directory_.path(); }
    bool make_read_only() { return ::mount("none", path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "") == 0; }

private:
    temporary_directory directory_;
    bool                mounted_ = false;
};

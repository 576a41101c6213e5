// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// What a durable store does when its files are not what it left there: links, pipes and devices under their names,
// files that are removed or replaced while it is open, files of any size.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <tenure/save.hpp>
#include <tenure/store/durable_mmap.hpp>

#include "temporary.hpp"
#include "throws.hpp"

namespace {

using tenure::block;
using tenure::errc;
using tenure::mmap_store;
using tenure::detail::durable_files;
using store = std::shared_ptr<tenure::durable_mmap_store>;
using bytes = std::vector<std::byte>;
using path  = std::filesystem::path;

constexpr tenure::durable_options reading{.read_only = true};

bytes pattern(std::uint64_t seed, std::size_t n) {
    std::mt19937_64 dice(seed);
    bytes           all(n);
    for (auto& b : all) b = static_cast<std::byte>(dice());
    return all;
}

void keep(store const& s, std::string_view name, bytes const& contents) {
    block const b = s->allocate(contents.size(), 1).value();
    REQUIRE(s->write(b, 0, contents).has_value());
    REQUIRE(s->keep(b, name).has_value());
    REQUIRE(s->sync({{b}}).has_value());
}

bytes contents(store const& s, std::string_view name) {
    block const b = s->find(name).value();
    bytes       out(b.bytes);
    REQUIRE(s->read(b, 0, out).has_value());
    return out;
}

void make_store(path const& where) {
    auto const s = mmap_store::open(where);
    keep(s, "a", pattern(1, 10'000));
    REQUIRE(s->close().has_value());
}

std::string text_of(path const& file) {
    std::ifstream f(file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(f), {});
}

void set_text(path const& file, std::string const& text) { std::ofstream(file, std::ios::binary) << text; }

void refused(path const& where, tenure::durable_options const& how, path const& file, errc why = errc::not_a_file) {
    check_throws(why, {file.string()}, [&] { (void)mmap_store::open(where, how); });
}

/// Ends the process, loudly, if what it lives in takes that long: a hang is a failure.
class no_longer_than {
public:
    explicit no_longer_than(unsigned seconds) { ::alarm(seconds); }
    no_longer_than(no_longer_than const&)            = delete;
    no_longer_than& operator=(no_longer_than const&) = delete;
    ~no_longer_than() { ::alarm(0); }
};

}  // namespace

TEST_SUITE("names that lead elsewhere") {
    TEST_CASE("a symbolic link is refused, and its target is as it was") {
        for (char const* const name : {"lock", "data.new", "data", "catalog.new", "catalog"}) {
            for (std::string const target : {"precious", "", "missing"}) {
                CAPTURE(name);
                CAPTURE(target);
                temporary_directory here, elsewhere;
                path const          file = here.path() / name, victim = elsewhere.path() / "victim";
                if (std::strchr(name, '.') == nullptr) make_store(here.path());
                std::filesystem::remove(file);
                if (target != "missing") set_text(victim, target);
                std::filesystem::create_symlink(victim, file);
                refused(here.path(), {}, file);
                if (std::strchr(name, '.') == nullptr) refused(here.path(), reading, file);
                CHECK(std::filesystem::is_symlink(file));
                CHECK(std::filesystem::exists(victim) == (target != "missing"));
                if (target != "missing") CHECK(text_of(victim) == target);
            }
        }
    }

    TEST_CASE("a hard link to what is not the store's own") {
        for (char const* const name : {"lock", "data.new", "catalog.new", "catalog"}) {
            CAPTURE(name);
            temporary_directory here;
            path const          file = here.path() / name, victim = here.path() / "victim";
            if (std::strchr(name, '.') == nullptr) make_store(here.path());
            std::filesystem::remove(file);
            set_text(victim, "precious");
            std::filesystem::create_hard_link(victim, file);
            refused(here.path(), {}, file);
            CHECK(text_of(victim) == "precious");
        }
    }

    TEST_CASE("a pipe, a socket, a device or a directory: refused at once") {
        for (char const* const name : {"lock", "data", "catalog"}) {
            CAPTURE(name);
            temporary_directory here;
            path const          file = here.path() / name;
            make_store(here.path());
            no_longer_than const limit(60);
            auto const           both = [&] {
                refused(here.path(), reading, file);
                refused(here.path(), {}, file);
                std::filesystem::remove(file);
            };
            std::filesystem::remove(file);
            REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
            both();

            ::sockaddr_un address{};
            address.sun_family = AF_UNIX;
            REQUIRE(file.string().size() < sizeof address.sun_path);
            file.string().copy(address.sun_path, sizeof address.sun_path - 1);
            tenure::detail::unique_fd const socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
            REQUIRE(::bind(socket.get(), reinterpret_cast<::sockaddr const*>(&address), sizeof address) == 0);
            both();

            std::filesystem::create_directory(file);
            both();

            if (::mknod(file.c_str(), S_IFCHR | 0600, ::makedev(1, 5)) == 0) both();  // /dev/zero
            else MESSAGE("skipped in part: this user may not make devices");
        }
    }

    TEST_CASE("restore() says so, too") {
        temporary_directory here;
        std::filesystem::create_symlink("nowhere", here.path() / "catalog");
        tenure::batch_scope const b;
        CHECK_THROWS_AS((void)tenure::restore(here.path()), tenure::error);
    }

    TEST_CASE("nothing that is open is passed on to other programs") {
        temporary_directory here;
        auto const          s       = mmap_store::open(here.path());
        int                 in_here = 0;
        for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
            std::error_code   gone;  // the iterator's own
            std::string const to = std::filesystem::read_symlink(entry.path(), gone).string();
            if (!to.starts_with(here.path().string())) continue;
            CAPTURE(to);
            CHECK((::fcntl(std::stoi(entry.path().filename().string()), F_GETFD) & FD_CLOEXEC) != 0);
            ++in_here;
        }
        CHECK(in_here >= 4);
    }
}

TEST_SUITE("files that are removed or replaced while the store is open") {
    TEST_CASE("without `lock` there is still one writer") {
        temporary_directory here;
        auto const          s = mmap_store::open(here.path());
        keep(s, "a", pattern(1, 1'000));
        std::filesystem::remove(here.path() / "lock");
        refused(here.path(), {}, here.path(), errc::store_in_use);
        ::pid_t const child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            int said = 0;
            try {
                (void)mmap_store::open(here.path());
            } catch (tenure::error const& e) {
                said = e.code() == errc::store_in_use ? 1 : 2;
            }
            ::_exit(said);
        }
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        CHECK(WEXITSTATUS(status) == 1);
        keep(s, "b", pattern(2, 1'000));
        CHECK(s->close().has_value());
        auto const again = mmap_store::open(here.path());
        CHECK(contents(again, "a") == pattern(1, 1'000));
        CHECK(contents(again, "b") == pattern(2, 1'000));
    }

    TEST_CASE("without `lock` a reader still keeps what it opened") {
        temporary_directory here;
        make_store(here.path());
        auto const r = mmap_store::open(here.path(), reading);
        std::filesystem::remove(here.path() / "lock");
        auto const s = mmap_store::open(here.path(), {.keep_warm = 0});
        for (std::uint64_t i = 2; i < 12; ++i) keep(s, "a", pattern(i, 10'000));
        CHECK(contents(r, "a") == pattern(1, 10'000));
    }

    TEST_CASE("a copy in place of `data`, or of `catalog`") {
        for (char const* const name : {"data", "catalog"}) {
            CAPTURE(name);
            temporary_directory here;
            path const          file = here.path() / name, aside = here.path() / "aside";
            auto const          s = mmap_store::open(here.path());
            keep(s, "a", pattern(1, 1'000));
            std::filesystem::rename(file, aside);
            std::filesystem::copy_file(aside, file);
            std::filesystem::remove(here.path() / "lock");
            refused(here.path(), {}, here.path(), errc::store_in_use);

            block const b = s->allocate(1'000, 1).value();
            CHECK(s->keep(b, "b").has_value());
            CHECK(s->sync({{b}}).error() == errc::store_replaced);
            CHECK(s->close().error() == errc::store_replaced);
            std::filesystem::rename(aside, file);
            CHECK(s->sync({{b}}).has_value());
            CHECK(s->close().has_value());
            CHECK(mmap_store::open(here.path())->names() == std::vector<std::string>{"a", "b"});
        }
    }

    TEST_CASE("all of it removed: the next store there is not touched") {
        temporary_directory here;
        auto const          s = mmap_store::open(here.path() / "store");
        keep(s, "a", pattern(1, 1'000));
        std::filesystem::remove_all(here.path() / "store");
        CHECK(s->sync({{s->find("a").value()}}).error() == errc::store_replaced);
        auto const t = mmap_store::open(here.path() / "store");
        keep(t, "b", pattern(2, 1'000));
        CHECK(s->sync({}).error() == errc::store_replaced);
        CHECK(contents(s, "a") == pattern(1, 1'000));
        CHECK(t->close().has_value());
        CHECK(mmap_store::open(here.path() / "store")->names() == std::vector<std::string>{"b"});
    }

    TEST_CASE("a directory that is moved takes the store along") {
        temporary_directory here;
        auto const          s = mmap_store::open(here.path() / "store");
        keep(s, "a", pattern(1, 1'000));
        std::filesystem::rename(here.path() / "store", here.path() / "moved");
        keep(s, "b", pattern(2, 1'000));
        refused(here.path() / "moved", {}, here.path() / "moved", errc::store_in_use);
        CHECK(s->close().has_value());
        CHECK(mmap_store::open(here.path() / "moved")->usage().blocks == 2);
    }

    TEST_CASE("a writer that is stopped while it holds readers off does not hold them for ever") {
        temporary_directory here;
        make_store(here.path());
        tenure::detail::unique_fd const held(::open((here.path() / "data").c_str(), O_RDWR | O_CLOEXEC));
        ::flock                         l{};
        l.l_type   = F_WRLCK;
        l.l_whence = SEEK_SET;
        l.l_start  = 1;
        l.l_len    = 1;
        REQUIRE(::fcntl(held.get(), F_OFD_SETLK, &l) == 0);
        no_longer_than const limit(60);
        refused(here.path(), reading, here.path(), errc::store_in_use);
    }
}

TEST_SUITE("files of any size and contents") {
    TEST_CASE("`data` of every size: refused, or whole") {
        temporary_directory here;
        make_store(here.path());
        auto const    all  = text_of(here.path() / "data");
        std::uint64_t last = 8192 + 12'288, opened = 0;
        for (std::uint64_t n = 0; n < last; n += n < 8'300 && !TENURE_SANITIZED ? 1 : 97) {
            std::filesystem::resize_file(here.path() / "data", n);
            check_throws(errc::corrupt, {"data"}, [&] { durable_files const f(here.path(), true); });
        }
        for (std::uint64_t n = last; n < last + 3; ++n) {
            set_text(here.path() / "data", all);
            std::filesystem::resize_file(here.path() / "data", n);
            durable_files const f(here.path(), true);
            opened += f.contents.blocks.size();
        }
        CHECK(opened == 3);
    }

    TEST_CASE("any bit of the header of `data`: refused, or the other copy") {
        temporary_directory here;
        make_store(here.path());
        auto const good   = text_of(here.path() / "data");
        int        passed = 0;
        for (std::size_t at = 0; at < 8192; at += at % 4096 == 47 ? 4096 - 47 : 1) {
            for (unsigned bit = 0; bit < 8; ++bit) {
                tenure::detail::unique_fd const f(::open((here.path() / "data").c_str(), O_RDWR | O_CLOEXEC));
                char const                      c = static_cast<char>(good[at] ^ (1 << bit));
                REQUIRE(::pwrite(f.get(), &c, 1, static_cast<::off_t>(at)) == 1);
                try {
                    durable_files const opened(here.path(), true);
                    CHECK(opened.contents.blocks.size() == 1);
                    ++passed;
                } catch (tenure::error const& e) {
                    CHECK((e.code() == errc::corrupt || e.code() == errc::newer_format));
                }
                REQUIRE(::pwrite(f.get(), &good[at], 1, static_cast<::off_t>(at)) == 1);
            }
        }
        CHECK(passed > 96 * 4);
    }

    TEST_CASE("`catalog` of every size: read as nothing else") {
        temporary_directory here;
        make_store(here.path());
        std::string const all    = text_of(here.path() / "catalog");
        std::uint64_t     number = 0;
        for (std::size_t n = 1; n <= all.size(); n += TENURE_SANITIZED ? 7 : 1) {
            std::unique_ptr<std::byte[]> const exact(new std::byte[n]);  // a byte more is somebody else's
            std::memcpy(exact.get(), all.data(), n);
            tenure::detail::catalog_contents out;
            if (tenure::detail::parse_catalog({exact.get(), n}, out, number) && out.blocks.size() != 1) {
                CHECK(out.blocks.empty());  // the commit before, of which the data file knows that it is older
                CHECK(out.header.sequence < 2);
            }
        }
    }

    TEST_CASE("a catalog of a tebibyte of nothing") {
        temporary_directory here;
        make_store(here.path());
        std::error_code refused_here;
        std::filesystem::resize_file(here.path() / "catalog", std::uintmax_t{1} << 40, refused_here);
        if (refused_here) {
            MESSAGE("skipped: the file system has no files of that size");
            return;
        }
        refused(here.path(), reading, here.path() / "catalog", errc::corrupt);
        refused(here.path(), {}, here.path() / "catalog", errc::corrupt);
    }
}

TEST_SUITE("a disk that is full, a limit that is reached") {
    /// Puts and syncs until there is no room; all that was synced is there, in this process and in the next.
    int fill(path const& where, std::size_t each) {
        int  synced = 0;
        auto s      = mmap_store::open(where, {.keep_warm = 0});
        for (;; ++synced) {
            auto const b = s->allocate(each, 1);
            if (!b) {
                CHECK(b.error() == errc::store_full);
                break;
            }
            std::uint64_t const i = static_cast<std::uint64_t>(synced);
            REQUIRE(s->write(*b, 0, pattern(i, each)).has_value());
            REQUIRE(s->keep(*b, std::string(200, 'n') + std::to_string(synced)).has_value());
            if (auto const done = s->sync({{*b}}); !done) {
                CHECK(done.error() == errc::store_full);
                break;
            }
        }
        auto const whole = [&] {
            std::uint64_t wrong = 0;
            for (int i = 0; i < synced; ++i)
                wrong += contents(s, std::string(200, 'n') + std::to_string(i)) !=
                         pattern(static_cast<std::uint64_t>(i), each);
            return wrong;
        };
        CHECK(whole() == 0);
        s.reset();
        s = mmap_store::open(where, {.keep_warm = 0});
        CHECK(s->usage().blocks >= static_cast<std::size_t>(synced));
        CHECK(whole() == 0);
        for (auto const& name : s->names()) REQUIRE(s->deallocate({{s->find(name).value()}}).has_value());
        CHECK(s->sync({}).has_value());  // with what was freed, there is room again
        keep(s, "again", pattern(9, each));
        return synced;
    }

    TEST_CASE("a full disk, by large blocks and by names") {
        for (std::size_t const each : {std::size_t{300'000}, std::size_t{10}}) {
            CAPTURE(each);
            small_disk const disk(2 << 20);
            if (!disk) {
                MESSAGE("skipped: this user may not mount a small file system");
                return;
            }
            CHECK(fill(disk.path() / "store", each) > 3);
        }
    }

    TEST_CASE("a disk with no room for a store") {
        for (std::size_t pages = 1; pages < 12; ++pages) {
            small_disk const disk(pages * 4096);
            if (!disk) {
                MESSAGE("skipped: this user may not mount a small file system");
                return;
            }
            CAPTURE(pages);
            try {
                auto const s = mmap_store::open(disk.path() / "store");
                CHECK(s->close().has_value());
            } catch (tenure::error const& e) {
                CHECK(e.code() == std::errc::no_space_on_device);
            }
        }
    }

    TEST_CASE("RLIMIT_FSIZE is store_full, wherever it is, and no signal") {
        for (::rlim_t const limit : {0u, 1u, 100u, 4'096u, 8'192u, 16'384u, 50'000u, 100'000u, 400'000u}) {
            CAPTURE(limit);
            temporary_directory here;
            ::pid_t const       child = ::fork();
            REQUIRE(child >= 0);
            if (child == 0) {
                int said = 3;
                try {
                    ::rlimit const now{limit, limit};
                    ::setrlimit(RLIMIT_FSIZE, &now);
                    auto const s = mmap_store::open(here.path() / "store");
                    for (int i = 0; said == 3; ++i) {
                        auto const b = s->allocate(10, 1);
                        if (!b) {
                            said = b.error() == errc::store_full ? 0 : 4;
                        } else if (!s->write(*b, 0, bytes(10, std::byte{1})) || !s->keep(*b, std::to_string(i))) {
                            said = 6;
                        } else if (auto const done = s->sync({{*b}}); !done) {
                            said = done.error() == errc::store_full ? 0 : 7;
                        }
                    }
                } catch (tenure::error const& e) {
                    said = e.code() == errc::store_full ? 1 : 5;
                }
                ::_exit(said);
            }
            int status = 0;
            REQUIRE(::waitpid(child, &status, 0) == child);
            REQUIRE_MESSAGE(WIFEXITED(status), "ended by signal " << WTERMSIG(status));
            CHECK(WEXITSTATUS(status) <= 1);
            auto const s = mmap_store::open(here.path() / "store");
            for (auto const& name : s->names()) CHECK(contents(s, name) == bytes(10, std::byte{1}));
        }
    }

    TEST_CASE("a limit that is lowered while the store is open") {
        temporary_directory here;
        ::pid_t const       child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            int said = 0;
            try {
                auto const s = mmap_store::open(here.path() / "store");
                keep(s, "a", pattern(1, 100'000));
                block const    b = s->find("a").value(), fresh = s->allocate(100'000, 1).value();
                ::rlimit const now{10'000, 10'000};
                ::setrlimit(RLIMIT_FSIZE, &now);
                if (s->write(fresh, 0, pattern(2, 100'000)).error() != errc::store_full) said |= 1;
                if (!s->write(b, 0, pattern(2, 100'000))) said |= 2;  // in memory, until it is synced
                if (s->sync({{b}}).error() != errc::store_full) said |= 4;
            } catch (tenure::error const&) {
                said = 8;
            }
            ::_exit(said);
        }
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        REQUIRE_MESSAGE(WIFEXITED(status), "ended by signal " << WTERMSIG(status));
        CHECK(WEXITSTATUS(status) == 0);
        CHECK(contents(mmap_store::open(here.path() / "store"), "a") == pattern(1, 100'000));
    }
}

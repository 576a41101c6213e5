// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Stores on disk, each beside what one would do without it. Wall clock: a disk is waited for. In the directory for
// temporary files, so that TMPDIR says which disk.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>
#include <tenure/store/durable_mmap.hpp>
#include <tenure/store/mmap.hpp>

#include "stores.hpp"
#include "support.hpp"

namespace {

using tenure::block;

/// A directory that is empty, and gone with all that is in it.
class scratch_directory {
public:
    scratch_directory() {
        auto path = (std::filesystem::temp_directory_path() / "tenure_bench_XXXXXX").string();
        if (!::mkdtemp(path.data())) throw std::runtime_error{"bench: no directory " + path};
        path_ = path;
    }
    ~scratch_directory() { std::filesystem::remove_all(path_); }
    scratch_directory(scratch_directory const&)            = delete;
    scratch_directory& operator=(scratch_directory const&) = delete;

    std::filesystem::path const& path() const noexcept { return path_; }

private:
    std::filesystem::path path_;
};

void check(bool good, char const* what) {
    if (!good) throw std::runtime_error{std::string{"bench: "} + what};
}

constexpr auto nothing = [] {};

/// Runs a round once to bring everything in, then measures rounds by the wall clock; not what comes before and
/// after.
template <class B, class F, class A>
void measure(benchmark::State& state, std::size_t objects, B before, F round, A after) {
    before();
    round();
    after();
    for (auto _ : state) {
        before();
        auto const start = bench::clock::now();
        round();
        state.SetIterationTime(bench::seconds{bench::clock::now() - start}.count());
        after();
    }
    state.counters["objects"] = static_cast<double>(objects);
}

/// As bench::heap_buffers.
void scratch(benchmark::State& state, tenure::mmap_options const& options) {
    tenure::mmap_store store{std::filesystem::temp_directory_path(), options};
    std::vector<block> all(bench::buffers);
    auto const         round = [&] {
        for (auto& each : all) {
            each = store.allocate(bench::buffer_bytes, alignof(std::max_align_t)).value();
            bench::use(::new (store.address(each).value()) std::uint64_t{1});
        }
        store.deallocate(all).value();
    };
    measure(state, bench::buffers, nothing, round, nothing);
}
void scratch_store(benchmark::State& state) { scratch(state, {}); }
void scratch_kept(benchmark::State& state) { scratch(state, {.keep_warm = std::size_t{1} << 30}); }
BENCHMARK(scratch_store)->Name("stores/scratch/mmap_store")->Unit(benchmark::kMillisecond)->UseManualTime();
BENCHMARK(scratch_kept)
    ->Name("stores/scratch/mmap_store_keep_warm")
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

/// A tenth as many, in a directory that is a tenth as full: this costs a file nothing, and saves us time.
void scratch_files(benchmark::State& state) {
    constexpr std::size_t                 files = bench::buffers / 10;
    scratch_directory const               directory;
    std::vector<std::string>              names;
    std::array<char, bench::buffer_bytes> contents{};
    for (std::size_t i = 0; i != files; ++i) names.push_back(directory.path() / std::to_string(i));
    auto const round = [&] {
        for (auto const& name : names) {
            int const file = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
            check(file >= 0, "open");
            check(::write(file, contents.data(), contents.size()) == std::ssize(contents), "write");
            ::close(file);
        }
        for (auto const& name : names) check(::unlink(name.c_str()) == 0, "unlink");
    };
    measure(state, files, nothing, round, nothing);
}
BENCHMARK(scratch_files)->Name("stores/scratch/files")->Unit(benchmark::kMillisecond)->UseManualTime();

constexpr std::size_t records = 1000, record_bytes = 64 << 10;

/// What is to outlive a power failure; each time with other numbers in it.
class record {
public:
    std::span<std::byte const> next() {
        ++number_;
        std::ranges::copy(std::as_bytes(std::span{&number_, 1}), bytes_.begin());
        return bytes_;
    }

private:
    std::uint64_t          number_ = 0;
    std::vector<std::byte> bytes_  = std::vector(record_bytes, std::byte{0x5a});
};

/// One file, written from begin to end, and one fdatasync.
void durable_file(benchmark::State& state) {
    scratch_directory const directory;
    auto const              name = (directory.path() / "records").string();
    record                  contents;
    measure(
        state, records, nothing,
        [&] {
            int const file = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
            check(file >= 0, "open");
            for (std::size_t i = 0; i != records; ++i) {
                auto const bytes = contents.next();
                check(::write(file, bytes.data(), bytes.size()) == std::ssize(bytes), "write");
            }
            check(::fdatasync(file) == 0, "fdatasync");
            ::close(file);
        },
        [&] { check(::unlink(name.c_str()) == 0, "unlink"); });
}
BENCHMARK(durable_file)->Name("stores/durable/write_fdatasync")->Unit(benchmark::kMillisecond)->UseManualTime();

/// A block each, kept and synced together: all of it is on the disk under its names, or none. `whole`: writing them
/// counts, too.
void durable(benchmark::State& state, bool whole) {
    scratch_directory const  directory;
    auto const               store = tenure::mmap_store::open(directory.path());
    record                   contents;
    std::vector<block>       all(records);
    std::vector<std::string> names;
    for (std::size_t i = 0; i != records; ++i) names.push_back("record " + std::to_string(i));
    auto const write = [&] {
        for (auto& each : all) {
            each = store->allocate(record_bytes, alignof(std::max_align_t)).value();
            store->write(each, 0, contents.next()).value();
        }
    };
    auto const sync = [&] {
        for (std::size_t i = 0; i != records; ++i) store->keep(all[i], names[i]).value();
        store->sync(all).value();
    };
    auto const free = [&] { store->deallocate(all).value(); };
    if (whole) measure(state, records, nothing, [&] { write(), sync(); }, free);
    else measure(state, records, write, sync, free);
}
void durable_sync(benchmark::State& state) { durable(state, false); }
void durable_whole(benchmark::State& state) { durable(state, true); }
BENCHMARK(durable_sync)->Name("stores/durable/keep_sync")->Unit(benchmark::kMillisecond)->UseManualTime();
BENCHMARK(durable_whole)->Name("stores/durable/write_keep_sync")->Unit(benchmark::kMillisecond)->UseManualTime();

}  // namespace

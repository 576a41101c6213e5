// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Stores on disk, each beside what one would do without it. Wall clock: a disk is waited for. In the directory for
// temporary files, so that TMPDIR says which disk.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>
#include <tenure/store/durable_mmap.hpp>
#include <tenure/store/mmap.hpp>

#include "disk.hpp"
#include "stores.hpp"

namespace {

using tenure::block;

using bench::check;
using bench::measure;
using bench::nothing;
using bench::scratch_directory;

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
    measure(state, bench::buffers, round);
}
void scratch_store(benchmark::State& state) { scratch(state, {}); }
void scratch_kept(benchmark::State& state) { scratch(state, {.keep_warm = std::size_t{1} << 30}); }
BENCHMARK(scratch_store)->Name("stores/scratch/mmap_store")->Unit(benchmark::kMillisecond)->UseManualTime();
BENCHMARK(scratch_kept)
    ->Name("stores/scratch/mmap_store_keep_warm")
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

/// The same through buffer<T>.
void scratch_buffers(benchmark::State& state) {
    tenure::registry        registry;
    tenure::any_store const store{std::make_shared<tenure::mmap_store>(std::filesystem::temp_directory_path())};
    measure(state, bench::buffers, [&] { bench::batch_of_buffers(registry, store); });
}
BENCHMARK(scratch_buffers)->Name("stores/scratch/tenure")->Unit(benchmark::kMillisecond)->UseManualTime();

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
    measure(state, files, round);
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

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Batches that go out to the page file and come back, beside a program that writes and reads files. In the
// directory for temporary files, so that TMPDIR says which disk; nothing is synced, so that it is the page cache
// that is measured.

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <tenure/tenure.hpp>

#include "disk.hpp"

namespace {

using bench::check;
using bench::clock;
using bench::measure;
using bench::seconds;

constexpr std::size_t page = 4096, MiB = std::size_t{1} << 20;

/// One address in each page.
using pages = std::vector<std::uint64_t*>;

std::uint64_t read_each(pages const& all) {
    std::uint64_t sum = 0;
    for (auto const* const p : all) sum += *p;
    return sum;
}
void write_each(pages const& all) {
    for (auto* const p : all) ++*p;
}

tenure::registry_options in_temporary_directory() {
    return {.page_file = std::filesystem::temp_directory_path().string()};
}

// ---- 1 GiB
// -------------------------------------------------------------------------------------------------------

constexpr std::size_t large = 1024 * MiB;

struct kilobyte {
    std::uint64_t first;
    std::uint64_t rest[127];

    explicit kilobyte(std::uint64_t i) : first{i}, rest{} {}
};

/// A batch of slabs, full of small objects.
struct large_batch {
    tenure::registry registry{in_temporary_directory()};
    tenure::batch_id id;
    pages            all;

    large_batch() : id{registry.new_batch({.name = "large"})} {
        auto const inside = registry.enter(id);
        while (registry.usage(id).bytes < large) {
            for (std::size_t i = 0; i < 64; ++i) {
                auto* const at = &tenure::make<kilobyte>(i).get()->first;
                if (all.empty() || reinterpret_cast<std::uintptr_t>(at) / page !=
                                       reinterpret_cast<std::uintptr_t>(all.back()) / page)
                    all.push_back(at);
            }
        }
    }
    ~large_batch() { registry.end_batch(id); }
    large_batch(large_batch const&)            = delete;
    large_batch& operator=(large_batch const&) = delete;
};

/// Ordinary memory, and a file of as many bytes; both warm from the second time.
struct large_file {
    bench::warm_buffer memory{large};
    int file = ::open(std::filesystem::temp_directory_path().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    large_file() { check(file >= 0, "no temporary file"); }
    ~large_file() { ::close(file); }
    large_file(large_file const&)            = delete;
    large_file& operator=(large_file const&) = delete;

    void write() const {
        for (std::size_t done = 0; done < large;) {  // it takes no more than 2 GiB less a page at a time
            auto const n = ::pwrite(file, memory.data() + done, large - done, static_cast<off_t>(done));
            check(n > 0, "pwrite");
            done += static_cast<std::size_t>(n);
        }
    }
};

/// `round()`, once for the first time, which is a figure of its own, and then measured; `before()` each.
template <class F, class G>
void warm_and_first(benchmark::State& state, F before, G round) {
    auto const timed = [&] {
        before();
        auto const start = clock::now();
        round();
        return seconds{clock::now() - start}.count();
    };
    state.counters["first_ms"] = timed() * 1e3;
    for (auto _ : state) state.SetIterationTime(timed());
}

void out(benchmark::State& state) {
    large_batch b;
    double      changing = 0;
    warm_and_first(
        state,
        [&] {
            auto const start  = clock::now();
            auto const inside = b.registry.enter(b.id);
            write_each(b.all);
            changing = seconds{clock::now() - start}.count();
        },
        [&] { b.registry.page_out(b.id); });
    state.counters["in_ms"] = changing * 1e3;  // entered, and all of it changed
}
void out_pwrite(benchmark::State& state) {
    large_file const f;
    warm_and_first(state, [] {}, [&] { f.write(); });
}

/// What is clean goes out again between rounds; the batch is not entered.
void touch(benchmark::State& state) {
    large_batch b;
    b.registry.page_out(b.id);
    warm_and_first(state, [&] { b.registry.page_out(b.id); }, [&] { benchmark::DoNotOptimize(read_each(b.all)); });
}
void touch_mapping(benchmark::State& state) {
    large_file const f;
    f.write();
    void* mapping = nullptr;
    pages all(large / page);
    warm_and_first(
        state,
        [&] {
            if (mapping) ::munmap(mapping, large);
            mapping = ::mmap(nullptr, large, PROT_READ | PROT_WRITE, MAP_PRIVATE, f.file, 0);
            check(mapping != MAP_FAILED, "mmap");
            for (std::size_t i = 0; i < all.size(); ++i)
                all[i] = reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(mapping) + i * page);
        },
        [&] { benchmark::DoNotOptimize(read_each(all)); });
    ::munmap(mapping, large);
}

auto const gigabyte = [](benchmark::internal::Benchmark* b) {
    b->Iterations(3)->UseManualTime()->Unit(benchmark::kMillisecond);
};
BENCHMARK(out)->Name("paging/out/tenure")->Apply(gigabyte);
BENCHMARK(out_pwrite)->Name("paging/out/pwrite")->Apply(gigabyte);
BENCHMARK(touch)->Name("paging/touch/tenure")->Apply(gigabyte);
BENCHMARK(touch_mapping)->Name("paging/touch/private_mapping")->Apply(gigabyte);

// ---- a model of 4 MiB
// --------------------------------------------------------------------------------------------

constexpr std::size_t layers = 16, layer_bytes = 4 * MiB / layers;

/// Its layers are arrays of their own.
struct model_batch {
    tenure::registry& registry;
    tenure::batch_id  id;
    pages             all;

    explicit model_batch(tenure::registry& in) : registry{in}, id{in.new_batch({.name = "model"})} {
        auto const inside = registry.enter(id);
        for (std::size_t l = 0; l < layers; ++l) {
            auto const layer = tenure::make<std::uint64_t[]>(layer_bytes / sizeof(std::uint64_t));
            for (std::size_t at = 0; at < layer.size(); at += page / sizeof(std::uint64_t))
                all.push_back(&layer[at]);
        }
        write_each(all);
    }
    ~model_batch() { registry.end_batch(id); }
    model_batch(model_batch const&)            = delete;
    model_batch& operator=(model_batch const&) = delete;

    void out() const { registry.page_out(id); }

    /// Back, and all of it.
    template <class Use>
    void in(Use use) const {
        auto const inside = registry.enter(id);
        use(all);
    }
};

/// The same in a file, which is written anew each time; in memory for as long as it is used.
struct model_file {
    bench::scratch_directory directory;
    std::string              name = (directory.path() / "model").string();
    std::vector<std::byte>   memory{4 * MiB, std::byte{1}};
    pages                    all;

    model_file() {
        for (std::size_t at = 0; at < memory.size(); at += page)
            all.push_back(reinterpret_cast<std::uint64_t*>(&memory[at]));
    }
};

struct posix_file : model_file {
    void out(int truncated = O_TRUNC) const {
        int const file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | truncated, 0600);
        check(file >= 0 && ::write(file, memory.data(), memory.size()) == std::ssize(memory), "write");
        ::close(file);
    }
    template <class Use>
    void in(Use use) {
        int const file = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
        check(file >= 0 && ::read(file, memory.data(), memory.size()) == std::ssize(memory), "read");
        ::close(file);
        use(all);
    }
};

struct posix_file_overwritten : posix_file {
    void out() const { posix_file::out(0); }
};

struct iostream_file : model_file {
    void out() const {
        std::ofstream file{name, std::ios::binary};
        check(file.write(reinterpret_cast<char const*>(memory.data()), std::ssize(memory)).good(), "write");
    }
    template <class Use>
    void in(Use use) {
        std::ifstream file{name, std::ios::binary};
        check(file.read(reinterpret_cast<char*>(memory.data()), std::ssize(memory)).good(), "read");
        use(all);
    }
};

/// Out, in again and used: only read, or changed in every page.
template <class Model>
void read_model(benchmark::State& state, Model model) {
    measure(state, 1, [&] {
        model->out();
        model->in([](pages const& all) { benchmark::DoNotOptimize(read_each(all)); });
    });
}
template <class Model>
void change_model(benchmark::State& state, Model model) {
    measure(state, 1, [&] {
        model->out();
        model->in([](pages const& all) { write_each(all); });
    });
}

/// Made, out, in again and ended, each time another: nothing of it was ever in the file.
void once_tenure(benchmark::State& state) {
    tenure::registry registry{in_temporary_directory()};
    measure(state, 1, [&] {
        model_batch const model{registry};
        model.out();
        model.in([](pages const& all) { benchmark::DoNotOptimize(read_each(all)); });
    });
}
void once_posix(benchmark::State& state) {
    measure(state, 1, [&] {
        posix_file model;
        model.out();
        model.in([](pages const& all) { benchmark::DoNotOptimize(read_each(all)); });
    });
}

template <class Model>
void register_model(char const* name) {
    auto const add = [&](std::string const& theme, auto f) {
        benchmark::RegisterBenchmark((theme + name).c_str(), f)->UseManualTime()->Unit(benchmark::kMicrosecond);
    };
    add("paging/model/", [](benchmark::State& state) { read_model(state, std::make_unique<Model>()); });
    add("paging/model_changed/", [](benchmark::State& state) { change_model(state, std::make_unique<Model>()); });
}

struct own_registry {
    tenure::registry in{in_temporary_directory()};
};
struct tenure_model : own_registry, model_batch {
    tenure_model() : model_batch{own_registry::in} {}
    using model_batch::in;
};

bool const registered = [] {
    register_model<tenure_model>("tenure");
    register_model<posix_file>("posix");
    register_model<posix_file_overwritten>("posix_overwritten");
    register_model<iostream_file>("iostream");
    return true;
}();
BENCHMARK(once_tenure)->Name("paging/model_once/tenure")->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(once_posix)->Name("paging/model_once/posix")->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace

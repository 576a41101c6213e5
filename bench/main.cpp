// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <sys/utsname.h>

namespace {

std::string first_line(char const* path, std::string const& key = {}) {
    std::ifstream file{path};
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with(key)) return key.empty() ? line : line.substr(line.find(": ") + 2);
    }
    return "unknown";
}

std::string kernel() {
    utsname name{};
    ::uname(&name);
    return std::string{name.sysname} + ' ' + name.release + ' ' + name.machine;
}

// A peer that took the place of malloc would be measured under every other peer's name.
void check_that_malloc_is_libc() {
    Dl_info of_malloc{}, of_exit{};
    if (!::dladdr(reinterpret_cast<void*>(&std::malloc), &of_malloc) ||
        !::dladdr(reinterpret_cast<void*>(&std::exit), &of_exit) || of_malloc.dli_fbase != of_exit.dli_fbase) {
        std::fprintf(stderr, "bench: malloc is not the C library's but of %s\n", of_malloc.dli_fname);
        std::exit(1);
    }
}

}  // namespace

int main(int argc, char** argv) {
    check_that_malloc_is_libc();
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    benchmark::AddCustomContext("cpu", first_line("/proc/cpuinfo", "model name"));
    benchmark::AddCustomContext("kernel", kernel());
    benchmark::AddCustomContext("huge_pages", first_line("/sys/kernel/mm/transparent_hugepage/enabled"));
    benchmark::AddCustomContext("compiler", TENURE_BENCH_COMPILER);
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
}

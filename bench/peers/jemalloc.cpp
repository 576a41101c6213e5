// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <cstddef>
#include <string>

#include "foreign.hpp"
#include "one_by_one.hpp"
#include "stores.hpp"
#include "themes.hpp"

namespace {

bench::foreign_library const library{TENURE_BENCH_JEMALLOC};

// Declared here: jemalloc's own header declares malloc and free once more.
auto const malloc_  = library.find<void*(std::size_t)>("malloc");
auto const free_    = library.find<void(void*)>("free");
auto const mallctl_ = library.find<int(char const*, void*, std::size_t*, void*, std::size_t)>("mallctl");

struct jemalloc {
    static constexpr char const* name = "jemalloc";

    static void* allocate(std::size_t bytes) { return malloc_(bytes); }
    static void  free(void* object) { free_(object); }

    static void trim() {
        mallctl_("thread.tcache.flush", nullptr, nullptr, nullptr, 0);
        mallctl_("arena.4096.purge", nullptr, nullptr, nullptr, 0);  // MALLCTL_ARENAS_ALL
    }
};

auto const registered =
    library && bench::register_peer<bench::one_by_one<jemalloc>>() && bench::register_buffers<jemalloc>();

}  // namespace

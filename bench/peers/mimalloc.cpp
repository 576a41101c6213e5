// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <mimalloc.h>

#include "foreign.hpp"
#include "one_by_one.hpp"
#include "stores.hpp"
#include "themes.hpp"

namespace {

bench::foreign_library const library{TENURE_BENCH_MIMALLOC};

auto const malloc_      = library.find<decltype(mi_malloc)>("mi_malloc");
auto const free_        = library.find<decltype(mi_free)>("mi_free");
auto const collect      = library.find<decltype(mi_collect)>("mi_collect");
auto const heap_new     = library.find<decltype(mi_heap_new)>("mi_heap_new");
auto const heap_malloc  = library.find<decltype(mi_heap_malloc)>("mi_heap_malloc");
auto const heap_destroy = library.find<decltype(mi_heap_destroy)>("mi_heap_destroy");

struct mimalloc {
    static constexpr char const* name = "mimalloc";

    static void* allocate(std::size_t bytes) { return malloc_(bytes); }
    static void  free(void* object) { free_(object); }
    static void  trim() { collect(true); }
};

class mimalloc_heap {
public:
    static constexpr char const* name = "mimalloc_heap";

    class batch {
    public:
        explicit batch(mimalloc_heap&) : heap_{heap_new()} {}
        batch(mimalloc_heap& peer, batch&) : batch{peer} {}
        ~batch() { heap_destroy(heap_); }
        batch(batch const&)            = delete;
        batch& operator=(batch const&) = delete;

        void* allocate(std::size_t bytes) { return heap_malloc(heap_, bytes); }

    private:
        mi_heap_t* heap_;
    };

    explicit mimalloc_heap(bench::capacity) {}

    static void trim() { collect(true); }
};

auto const registered = library && bench::register_peer<bench::one_by_one<mimalloc>>() &&
                        bench::register_buffers<mimalloc>() && bench::register_peer<mimalloc_heap>();

}  // namespace

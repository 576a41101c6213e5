// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <cstdlib>

#include <apr_allocator.h>
#include <apr_general.h>
#include <apr_pools.h>
#include <malloc.h>

#include "themes.hpp"

namespace {

// Pools with an allocator of their own, as httpd gives one to each worker: without a lock, and without a limit on
// what it holds for the next pool.
class apr {
public:
    static constexpr char const* name = "apr";

    class batch {
    public:
        explicit batch(apr& peer) { apr_pool_create(&pool_, peer.root_); }
        batch(apr&, batch& outer) { apr_pool_create(&pool_, outer.pool_); }
        ~batch() { apr_pool_destroy(pool_); }
        batch(batch const&)            = delete;
        batch& operator=(batch const&) = delete;

        void* allocate(std::size_t bytes) { return apr_palloc(pool_, bytes); }

    private:
        apr_pool_t* pool_;
    };

    explicit apr(bench::capacity) {
        apr_allocator_t* allocator;
        apr_allocator_create(&allocator);
        apr_pool_create_unmanaged_ex(&root_, nullptr, allocator);
        apr_allocator_owner_set(allocator, root_);
    }
    ~apr() { apr_pool_destroy(root_); }
    apr(apr const&)            = delete;
    apr& operator=(apr const&) = delete;

    static void trim() { ::malloc_trim(0); }

private:
    apr_pool_t* root_;
};

auto const registered =
    apr_initialize() == APR_SUCCESS && std::atexit(apr_terminate) == 0 && bench::register_peer<apr>();

}  // namespace

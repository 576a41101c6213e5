// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <memory_resource>

#include <malloc.h>

#include "themes.hpp"

namespace {

// A nested batch has a slice of the warm buffer to itself: taking it from the batch outside would cost the peer a
// copy of its own bookkeeping for nothing.
class pmr_warm {
public:
    static constexpr char const* name = "pmr_warm";

    class batch {
    public:
        explicit batch(pmr_warm& peer) : batch{peer, 0u} {}
        batch(pmr_warm& peer, batch& outer) : batch{peer, outer.level_ + 1} {}

        void* allocate(std::size_t bytes) { return resource_.allocate(bytes); }

    private:
        batch(pmr_warm& peer, unsigned level)
            : level_{level},
              resource_{peer.buffer_.data() + level * peer.slice_, peer.slice_, std::pmr::null_memory_resource()} {}

        unsigned                            level_;
        std::pmr::monotonic_buffer_resource resource_;
    };

    explicit pmr_warm(bench::capacity c) : slice_{c.bytes}, buffer_{c.bytes * c.depth} {}

private:
    std::size_t        slice_;
    bench::warm_buffer buffer_;
};

class pmr_new_delete {
public:
    static constexpr char const* name = "pmr_new_delete";

    class batch {
    public:
        explicit batch(pmr_new_delete&) {}
        batch(pmr_new_delete&, batch&) {}

        void* allocate(std::size_t bytes) { return resource_.allocate(bytes); }

    private:
        std::pmr::monotonic_buffer_resource resource_{std::pmr::new_delete_resource()};
    };

    explicit pmr_new_delete(bench::capacity) {}

    static void trim() { ::malloc_trim(0); }
};

auto const registered = bench::register_peer<pmr_warm>() && bench::register_peer<pmr_new_delete>();

}  // namespace

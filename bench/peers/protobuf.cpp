// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <google/protobuf/arena.h>
#include <malloc.h>

#include "themes.hpp"

namespace {

using google::protobuf::Arena;
using google::protobuf::ArenaOptions;

class protobuf {
public:
    static constexpr char const* name = "protobuf";

    class batch {
    public:
        explicit batch(protobuf&) {}
        batch(protobuf&, batch&) {}

        auto  make(std::uint64_t id) { return Arena::Create<bench::object>(&arena_, id); }
        void* allocate(std::size_t bytes) { return arena_.AllocateAligned(bytes, 16); }

    private:
        Arena arena_;
    };

    explicit protobuf(bench::capacity) {}

    static void trim() { ::malloc_trim(0); }
};

// The arena's own best: a first block that is there already.
class protobuf_warm {
public:
    static constexpr char const* name = "protobuf_warm";

    class batch {
    public:
        explicit batch(protobuf_warm& peer) : batch{peer, 0u} {}
        batch(protobuf_warm& peer, batch& outer) : batch{peer, outer.level_ + 1} {}

        auto  make(std::uint64_t id) { return Arena::Create<bench::object>(&arena_, id); }
        void* allocate(std::size_t bytes) { return arena_.AllocateAligned(bytes, 16); }

    private:
        batch(protobuf_warm& peer, unsigned level) : level_{level}, arena_{peer.options(level)} {}

        unsigned level_;
        Arena    arena_;
    };

    explicit protobuf_warm(bench::capacity c) : slice_{c.bytes + room}, buffer_{slice_ * c.depth} {}

private:
    static constexpr std::size_t room = 4096;  // an arena keeps its own records in the block too

    ArenaOptions options(unsigned level) const {
        ArenaOptions result;
        result.initial_block      = reinterpret_cast<char*>(buffer_.data() + level * slice_);
        result.initial_block_size = slice_;
        return result;
    }

    std::size_t        slice_;
    bench::warm_buffer buffer_;
};

auto const registered = bench::register_peer<protobuf>() && bench::register_peer<protobuf_warm>();

}  // namespace

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <malloc.h>
#include <foonathan/memory/memory_stack.hpp>

#include "themes.hpp"

namespace {

class foonathan_stack {
    using stack = foonathan::memory::memory_stack<>;

public:
    static constexpr char const* name = "foonathan";
    using strictly_nested             = void;

    class batch {
    public:
        explicit batch(foonathan_stack& peer) : stack_{peer.stack_}, unwind_{stack_} {}
        batch(foonathan_stack& peer, batch&) : batch{peer} {}

        void* allocate(std::size_t bytes) { return stack_.allocate(bytes, 16); }

    private:
        stack&                                             stack_;
        foonathan::memory::memory_stack_raii_unwind<stack> unwind_;
    };

    explicit foonathan_stack(bench::capacity c) : stack_{stack::min_block_size(c.bytes * c.depth + 16)} {}

    static void trim() { ::malloc_trim(0); }

private:
    stack stack_;
};

auto const registered = bench::register_peer<foonathan_stack>();

}  // namespace

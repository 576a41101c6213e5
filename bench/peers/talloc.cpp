// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <malloc.h>
#include <talloc.h>

#include "themes.hpp"

namespace {

class talloc_contexts {
public:
    static constexpr char const* name = "talloc";

    class batch {
    public:
        explicit batch(talloc_contexts&) : context_{talloc_new(nullptr)} {}
        batch(talloc_contexts&, batch& outer) : context_{talloc_new(outer.context_)} {}
        ~batch() { talloc_free(context_); }
        batch(batch const&)            = delete;
        batch& operator=(batch const&) = delete;

        void* allocate(std::size_t bytes) { return talloc_size(context_, bytes); }

        void* keep(batch& outer, void* object, std::size_t) { return talloc_steal(outer.context_, object); }

    private:
        void* context_;
    };

    explicit talloc_contexts(bench::capacity) {}

    static void trim() { ::malloc_trim(0); }
};

auto const registered = bench::register_peer<talloc_contexts>();

}  // namespace

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/tenure.hpp>

#include "themes.hpp"

namespace {

using bench::object;

class tenure_batches {
public:
    static constexpr char const* name = "tenure";

    class batch {
    public:
        explicit batch(tenure_batches&) {}
        batch(tenure_batches&, batch& outer) : scope_{tenure::below(outer.scope_)} {}

        [[gnu::always_inline]] auto make(std::uint64_t id) { return scope_.make<object>(id); }

        auto make_bytes(std::size_t bytes, std::uint64_t id) {
            auto const made = scope_.make<granule[]>(bytes / sizeof(granule));
            made[0].id      = id;
            return made;
        }

        template <class T>
        auto keep(batch&, tenure::handle<T> made, std::size_t) {
            return scope_.keep(made);
        }

        template <class Range>
        void keep_all(Range const& made) {
            scope_.keep(made);
        }

        tenure::batch_id detach() { return scope_.detach(); }

    private:
        // make<T[]> value-initializes; an element that leaves its bytes alone is what the peers' raw bytes are.
        struct alignas(16) granule {
            std::uint64_t id;
            std::uint64_t rest;

            granule() noexcept {}
        };

        tenure::batch_scope scope_;
    };

    explicit tenure_batches(bench::capacity) {}

    static void end(tenure::batch_id id) { tenure::registry::global().end_batch(id); }
    static void trim() { tenure::registry::global().trim(); }
};
static_assert(bench::ends_anywhere<tenure_batches> && bench::keeps<tenure_batches>);

auto const registered = bench::register_peer<tenure_batches>();

}  // namespace

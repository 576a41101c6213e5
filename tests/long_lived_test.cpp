// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Batches that live as long as their process does, with objects that come and go: what is freed is used again, so
// memory stays where it was after the first few thousand.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <semaphore>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/detail/objects/recycle.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"

namespace {

using tenure::batch_scope;
using tenure::handle;
using tenure::registry;

constexpr std::size_t queue_length = 1'000;
constexpr std::size_t passing      = TENURE_SANITIZED ? 12'000 : 200'000;

struct message {
    std::uint64_t number;
    char          text[88];
};

struct alignas(64) aligned_message {
    std::uint64_t number;
    std::string   text;
};

/// The bytes that the registry holds when half of the objects have passed, and when all have.
struct held_bytes {
    std::size_t halfway = 0, finally = 0;
};

/// Objects pass through a queue, oldest first out.
template <class T, class Make, class Free>
held_bytes pass_through(registry& r, Make make, Free free) {
    std::deque<handle<T>> queue;
    held_bytes            held;
    for (std::size_t i = 0; i < passing; ++i) {
        queue.push_back(make(i));
        if (queue.size() > queue_length) {
            free(queue.front());
            queue.pop_front();
        }
        if (i == passing / 2) held.halfway = r.usage().held;
    }
    held.finally = r.usage().held;
    return held;
}

/// As pass_through, by the thousand to another thread.
template <class T, class Make, class Take>
held_bytes pass_over(registry& r, Make make, Take take) {
    std::vector<handle<T>> passed;
    std::binary_semaphore  full(0), empty(1);
    held_bytes             held;
    std::jthread           reader([&] {
        for (std::size_t i = 0; i < passing; i += queue_length) {
            full.acquire();
            std::vector<handle<T>> const mine = std::exchange(passed, {});
            empty.release();
            for (handle<T> const h : mine) take(h);
        }
    });
    for (std::size_t i = 0; i < passing; i += queue_length) {
        std::vector<handle<T>> made;
        for (std::size_t k = 0; k < queue_length; ++k) made.push_back(make(i + k));
        empty.acquire();
        passed = std::move(made);
        full.release();
        if (i == passing / 2) held.halfway = r.usage().held;
    }
    reader.join();
    held.finally = r.usage().held;
    return held;
}

template <class T>
T sample(std::size_t i) {
    if constexpr (std::is_same_v<T, std::string>) return "message number " + std::to_string(i) + ", told at length";
    else return {i, {}};
}

constexpr std::size_t unit = 65'536;

/// Of `queued` objects of this size: as they lie beside each other, and a few units that are being filled.
template <class T>
void check(held_bytes held, std::size_t queued) {
    constexpr std::size_t each = sizeof(T) + (std::is_trivially_destructible_v<T> ? 0 : 24) + alignof(T);
    CHECK(held.finally <= held.halfway + 16 * unit);
    CHECK(held.finally <= 2 * queued * each + 10 * unit);
}

}  // namespace

TEST_SUITE("a queue in a batch that stays") {
    TEST_CASE_TEMPLATE("of its own objects", T, message, std::string, aligned_message) {
        registry         r;
        accounting const books(r);
        batch_scope      server(r);
        auto const       make = [&](std::size_t i) { return server.make<T>(sample<T>(i)); };
        check<T>(pass_through<T>(r, make, [&](handle<T> h) { server.free(h); }), queue_length);
    }

    TEST_CASE_TEMPLATE("of what requests keep", T, message, std::string) {
        registry         r;
        accounting const books(r);
        batch_scope      server(r);
        auto const       make = [&](std::size_t i) {
            batch_scope request{tenure::below(server)};
            for (int scratch = 0; scratch < 3; ++scratch) request.make<T>(sample<T>(i));
            return request.keep(request.make<T>(sample<T>(i)));
        };
        held_bytes const held = pass_through<T>(r, make, [&](handle<T> h) { server.free(h); });
        CHECK(held.finally <= held.halfway + 16 * unit);
        CHECK(held.finally <=
              (queue_length + 16) * unit);  // each request's unit, while what it kept is in the queue
    }

    TEST_CASE_TEMPLATE("freed by another thread than makes them", T, message, std::string, aligned_message) {
        registry         r;
        accounting const books(r);
        batch_scope      server(r);
        auto const       make = [&](std::size_t i) { return server.make<T>(sample<T>(i)); };
        check<T>(pass_over<T>(r, make, [&](handle<T> h) { r.free(h); }), 3 * queue_length);
        CHECK(server.usage().objects == 0);
    }

    TEST_CASE("what others free while a lane looks for room is room") {
        registry                             r;
        accounting const                     books(r);
        batch_scope                          server(r);
        std::vector<handle<aligned_message>> made;
        for (std::size_t i = 0; i < 3 * queue_length; ++i)
            made.push_back(server.make<aligned_message>(sample<aligned_message>(i)));
        std::jthread([&] {
            for (std::size_t i = 0; i < 2 * queue_length; ++i) r.free(made[i]);
        }).join();
        // As in the middle of a make, which has looked for what others have freed when these come.
        CHECK(tenure::detail::next_own_unit(*tenure::detail::this_thread.current, sizeof(aligned_message)));
        std::size_t const held = r.usage().held;
        for (std::size_t i = 0; i < queue_length; ++i) server.make<aligned_message>(sample<aligned_message>(i));
        CHECK(r.usage().held == held);
    }

    TEST_CASE_TEMPLATE("taken over by requests on another thread", T, message, std::string) {
        registry         r;
        accounting const books(r);
        batch_scope      server(r);
        auto const       make = [&](std::size_t i) { return server.make<T>(sample<T>(i)); };
        auto const       take = [&, n = 0](handle<T> h) mutable {
            batch_scope request(r);
            r.transfer_ownership(h, request.id());
            if (++n % 2) request.free(h);
        };
        check<T>(pass_over<T>(r, make, take), 3 * queue_length);
        CHECK(server.usage().objects == 0);
    }
}

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <vector>

#include "peer.hpp"

namespace bench {

/// Batches over a heap that frees one object at a time: the program has to find them again, so each batch has a
/// list of pointers. The list is as cheap as one can be (reserved, reused, unchecked), and counts as memory in use.
template <class Heap>
class one_by_one {
public:
    static constexpr char const* name = Heap::name;

    struct list {
        void** begin;
        void** end;
    };

    class batch {
    public:
        explicit batch(one_by_one& peer) : batch{peer, 0u} {}
        batch(one_by_one& peer, batch& outer) : batch{peer, outer.level_ + 1} {}
        ~batch() { end(objects_); }
        batch(batch const&)            = delete;
        batch& operator=(batch const&) = delete;

        void* allocate(std::size_t bytes) { return *objects_.end++ = Heap::allocate(bytes); }

        void* keep(batch& outer, void* object, std::size_t index) {
            objects_.begin[index]        = nullptr;
            return *outer.objects_.end++ = object;
        }

        list detach() {
            auto const all = objects_;
            objects_.end   = objects_.begin;
            return all;
        }

    private:
        batch(one_by_one& peer, unsigned level) : level_{level} {
            objects_.begin = objects_.end = peer.lists_.data() + level * peer.slice_;
        }

        unsigned level_;
        list     objects_;
    };

    explicit one_by_one(capacity c) : slice_{c.objects}, lists_(c.objects * c.depth) {}

    static void end(list objects) {
        for (auto at = objects.begin; at != objects.end; ++at) Heap::free(*at);
    }

    static void trim() { Heap::trim(); }

private:
    std::size_t        slice_;
    std::vector<void*> lists_;
};

}  // namespace bench

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <memory>
#include <new>
#include <vector>

#include <malloc.h>

#include "one_by_one.hpp"
#include "stores.hpp"
#include "themes.hpp"

namespace {

struct new_delete {
    static constexpr char const* name = "new_delete";

    static void* allocate(std::size_t bytes) { return ::operator new(bytes); }
    static void  free(void* object) { ::operator delete(object); }
    static void  trim() { ::malloc_trim(0); }
};

// As programs are written: a vector that owns its objects, reserved once and reused.
class unique_ptr {
    using object = bench::object;
    using list   = std::vector<std::unique_ptr<object>>;

public:
    static constexpr char const* name = "unique_ptr";

    class batch {
    public:
        explicit batch(unique_ptr& peer) : batch{peer, 0u} {}
        batch(unique_ptr& peer, batch& outer) : batch{peer, outer.level_ + 1} {}
        ~batch() { objects_.clear(); }
        batch(batch const&)            = delete;
        batch& operator=(batch const&) = delete;

        object* make(std::uint64_t id) { return objects_.emplace_back(std::make_unique<object>(id)).get(); }

        object* keep(batch& outer, object*, std::size_t index) {
            return outer.objects_.emplace_back(std::move(objects_[index])).get();
        }

    private:
        batch(unique_ptr& peer, unsigned level) : level_{level}, objects_{peer.lists_[level]} {}

        unsigned level_;
        list&    objects_;
    };

    explicit unique_ptr(bench::capacity c) : lists_(c.depth) {
        for (auto& each : lists_) each.reserve(c.objects);
    }

    static void trim() { ::malloc_trim(0); }

private:
    std::vector<list> lists_;
};

auto const registered = bench::register_peer<bench::one_by_one<new_delete>>() &&
                        bench::register_buffers<new_delete>() && bench::register_peer<unique_ptr>();

}  // namespace

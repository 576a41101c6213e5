// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <malloc.h>

#include "path.hpp"

namespace package_graph {

struct peer_options {
    std::string_view name{};  // nobody asks for it
};

struct peer_report {
    std::size_t made  = 0;
    std::size_t freed = 0;
};

/// Each object is allocated by itself, and listed to be freed by itself.
template <class Memory>
class listed_batch {
    template <class T>
    using owners = std::vector<typename Memory::template owner<T>>;

public:
    explicit listed_batch(peer_options) {}
    listed_batch(listed_batch& parent, peer_options) : parent_{&parent} {}
    listed_batch(listed_batch const&)            = delete;
    listed_batch& operator=(listed_batch const&) = delete;

    template <class T, class... Args>
    auto make(Args&&... args) -> typename Memory::template ref<T> {
        ++count_.made;
        return Memory::refer(listed<T>().emplace_back(Memory::template create<T>(std::forward<Args>(args)...)));
    }

    template <class Ref>
    void keep(std::vector<Ref> const& refs) {
        using T    = typename std::pointer_traits<Ref>::element_type;
        auto& mine = listed<T>();
        for (auto const& r : refs) {
            auto const at = std::ranges::find(mine, std::to_address(r), [](auto const& o) { return o.get(); });
            parent_->template listed<T>().push_back(std::move(*at));
        }
        kept_ += refs.size();
        parent_->received_ += refs.size();
    }

    peer_report end() {
        lists_       = {};
        count_.freed = count_.made + received_ - kept_;
        return count_;
    }

    std::pmr::memory_resource* resource() { return std::pmr::new_delete_resource(); }

private:
    template <class T>
    owners<T>& listed() {
        return std::get<owners<T>>(lists_);
    }

    listed_batch*                             parent_ = nullptr;
    std::tuple<owners<path>, owners<related>> lists_;
    peer_report                               count_;
    std::size_t                               kept_     = 0;
    std::size_t                               received_ = 0;
};

struct heap_memory {
    static void trim() {
#ifdef __GLIBC__
        ::malloc_trim(0);
#endif
    }
};

struct new_delete_memory : heap_memory {
    static constexpr std::string_view name = "new-delete";

    using batch = listed_batch<new_delete_memory>;
    using below = batch&;
    template <class T>
    using ref = T*;
    template <class T>
    using owner = std::unique_ptr<T>;

    template <class T, class... Args>
    static owner<T> create(Args&&... args) {
        return std::make_unique<T>(std::forward<Args>(args)...);
    }
    template <class T>
    static T* refer(owner<T> const& o) {
        return o.get();
    }
};

struct shared_ptr_memory : heap_memory {
    static constexpr std::string_view name = "shared_ptr";

    using batch = listed_batch<shared_ptr_memory>;
    using below = batch&;
    template <class T>
    using ref = std::shared_ptr<T>;
    template <class T>
    using owner = ref<T>;

    template <class T, class... Args>
    static owner<T> create(Args&&... args) {
        return std::make_shared<T>(std::forward<Args>(args)...);
    }
    template <class T>
    static ref<T> const& refer(owner<T> const& o) {
        return o;
    }
};

/// An arena a batch, on new and delete. It cannot let go of a single object, so what is kept is copied out.
struct pmr_memory : heap_memory {
    static constexpr std::string_view name = "pmr";

    template <class T>
    using ref = T*;

    class batch {
    public:
        explicit batch(peer_options) {}
        batch(batch& parent, peer_options) : parent_{&parent} {}

        template <class T, class... Args>
        T* make(Args&&... args) {
            ++made_;
            return std::pmr::polymorphic_allocator<>{&arena_}.new_object<T>(std::forward<Args>(args)...);
        }

        template <class T>
        void keep(std::vector<T*>& refs) {
            for (T*& r : refs) r = parent_->template make<T>(*r);
        }

        peer_report end() {
            arena_.release();
            return {made_, made_};
        }

        std::pmr::memory_resource* resource() { return &arena_; }

    private:
        batch*                              parent_ = nullptr;
        std::size_t                         made_   = 0;
        std::pmr::monotonic_buffer_resource arena_{std::pmr::new_delete_resource()};
    };
    using below = batch&;
};

}  // namespace package_graph

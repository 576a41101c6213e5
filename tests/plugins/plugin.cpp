// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include "plugin.hpp"

#include <memory>
#include <thread>

namespace {

struct counted final : number {
    int* ended;

    counted(int v, int* e) : number(v), ended(e) {}
    ~counted() override { ++*ended; }
};

struct counted_store : tenure::heap_store {
    int* ended;

    explicit counted_store(int* e) : ended(e) {}
    ~counted_store() { ++*ended; }
};

tenure::handle<number> make(int value, int* ended) { return tenure::make<counted>(value, ended); }

void with_batch(void (*inside)(tenure::batch_scope&, void*), void* argument) {
    tenure::batch_scope batch{{.name = "a plugin's"}};
    inside(batch, argument);
}

void make_on_a_thread(tenure::batch_id id, int* ended) {
    std::thread([&] {
        auto const inside = tenure::registry::global().enter(id);
        make(1, ended);
    }).join();
}

constexpr plugin_calls calls{
    .registry         = []() -> tenure::registry const& { return tenure::registry::global(); },
    .category         = []() -> std::error_category const& { return tenure::error_category(); },
    .this_thread      = []() -> void const* { return &tenure::detail::this_thread; },
    .current          = [] { return tenure::current_batch(); },
    .make             = &make,
    .with_batch       = &with_batch,
    .read             = [](tenure::handle<number> h) { return h->value; },
    .free             = [](tenure::handle<number> h) { tenure::registry::global().free(h); },
    .store            = [](int* ended) -> tenure::any_store { return std::make_shared<counted_store>(ended); },
    .make_on_a_thread = &make_on_a_thread,
};

}  // namespace

extern "C" {
#ifdef TENURE_SECOND_PLUGIN
[[gnu::visibility("default")]] plugin_calls const* second_plugin() { return &calls; }
#endif
[[gnu::visibility("default")]] plugin_calls const* plugin() { return &calls; }
[[gnu::visibility("default")]] void const*         plugin_registry() { return &tenure::registry::global(); }
}

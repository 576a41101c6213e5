// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <system_error>

#include <tenure/tenure.hpp>

struct number {
    int value = 0;

    number() = default;
    explicit number(int v) : value(v) {}
    number(number const&)            = delete;
    number& operator=(number const&) = delete;
    virtual ~number()                = default;
};

/// What the program of the tests asks of a library. It is compiled as careful libraries are: nothing is visible but
/// what plugin() leads to.
struct plugin_calls {
    /// Each is one object, whoever asks.
    tenure::registry const& (*registry)();
    std::error_category const& (*category)();
    void const* (*this_thread)();
    tenure::batch_id (*current)();

    /// Makes an object of a type that only the library knows, in the batch that is current. Its destructor counts.
    tenure::handle<number> (*make)(int value, int* ended);

    /// Opens a batch of the library's own, calls `inside` with it, and ends it.
    void (*with_batch)(void (*inside)(tenure::batch_scope&, void*), void* argument);

    /// Throws tenure::error, stale_handle, if the object is gone.
    int (*read)(tenure::handle<number>);
    void (*free)(tenure::handle<number>);

    /// A store of the library's own, which lives as long as a batch has blocks there.
    tenure::any_store (*store)(int* ended);

    /// Has a thread of the library's own make something in that batch.
    void (*make_on_a_thread)(tenure::batch_id, int* ended);
};

extern "C" plugin_calls const* plugin();
using get_plugin = plugin_calls const*();

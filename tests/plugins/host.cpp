// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A program and two libraries that share what a process has once. Compiled three times: linked to the libraries,
// and with PLUGIN_FLAGS, which are those that it loads them with.

#include <doctest/doctest.h>

#include <array>
#include <optional>
#include <string>
#include <thread>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plugin.hpp"

namespace {

/// Counts its end; of a type that only the program knows.
struct counted final : number {
    int* ended;

    explicit counted(int* e) : ended(e) {}
    ~counted() override { ++*ended; }
};

#ifdef PLUGIN_FLAGS
class loaded {
public:
    explicit loaded(char const* path) : library_(::dlopen(path, RTLD_NOW | PLUGIN_FLAGS)) {
        char const* const why = library_ ? nullptr : ::dlerror();
        REQUIRE_MESSAGE(library_ != nullptr, std::string(why ? why : ""));
        calls_ = reinterpret_cast<get_plugin*>(::dlsym(library_, "plugin"))();
    }
    ~loaded() { CHECK(::dlclose(library_) == 0); }
    loaded(loaded const&)            = delete;
    loaded& operator=(loaded const&) = delete;

    plugin_calls const* operator->() const { return calls_; }

private:
    void*               library_;
    plugin_calls const* calls_;
};

struct libraries {
    loaded first{PLUGIN_FIRST};
    loaded second{PLUGIN_SECOND};
};
#else
extern "C" plugin_calls const* second_plugin();

struct libraries {
    plugin_calls const* first  = plugin();
    plugin_calls const* second = second_plugin();
};
#endif

template <class Library>
void check_shared(Library const& library) {
    CHECK(&library->registry() == &tenure::registry::global());
    CHECK(&library->category() == &tenure::error_category());
    CHECK(library->this_thread() == &tenure::detail::this_thread);

    tenure::batch_scope const batch;
    CHECK(library->current() == batch.id());
    std::thread([&] {
        tenure::batch_scope const other;
        CHECK(library->this_thread() == &tenure::detail::this_thread);
        CHECK(library->current() == other.id());
    }).join();
}

/// In a child, lest the test end with it: whether fork() still works, and what a child does with batches.
bool a_child_goes_on() {
    ::pid_t const child = ::fork();
    if (child == 0) {
        int ended = 0;
        {
            tenure::batch_scope batch;
            batch.make<counted>(&ended);
        }
        ::_exit(ended == 1 ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    return status == 0;
}

TEST_CASE("a program and two libraries have one registry, one current batch and one error category") {
    libraries const loaded;
    check_shared(loaded.first);
    check_shared(loaded.second);
}

TEST_CASE("the batch of one frees what another made") {
    libraries const loaded;
    int             ended = 0;
    {
        tenure::batch_scope const batch;
        auto const                made = loaded.first->make(1, &ended);
        CHECK(loaded.second->read(made) == 1);
        CHECK(made.owner() == batch.id());
        CHECK(ended == 0);
    }
    CHECK(ended == 1);

    loaded.first->with_batch(
        [](tenure::batch_scope& theirs, void* e) {
            auto const made = tenure::make<counted>(static_cast<int*>(e));
            CHECK(made.owner() == theirs.id());
        },
        &ended);
    CHECK(ended == 2);

    tenure::batch_scope const batch;
    auto const                early = loaded.first->make(1, &ended);
    loaded.second->free(early);
    CHECK(ended == 3);
    CHECK(!early.alive());
}

TEST_CASE("what one throws, another catches and compares") {
    libraries const loaded;
    int             ended = 0;

    tenure::handle<number> gone;
    {
        tenure::batch_scope const batch;
        gone = loaded.first->make(1, &ended);
    }
    try {
        loaded.second->read(gone);
        FAIL("it is gone");
    } catch (tenure::error const& e) {
        CHECK(e.code() == tenure::errc::stale_handle);
    }
}

TEST_CASE("what a library made outlives dlclose(3): objects, stores, threads, handlers of forks") {
    int ended = 0, stores = 0;

    tenure::handle<number> kept;
    {
        tenure::batch_scope outer;
        {
            std::optional<libraries> loaded{std::in_place};
            kept = loaded->first->make(7, &ended);
            loaded->second->make(8, &ended);
            outer.make_buffer<int>(100, loaded->second->store(&stores));
            loaded->first->make_on_a_thread(outer.id(), &ended);
        }
        CHECK(kept->value == 7);
        CHECK(ended == 0);
        CHECK(stores == 0);
        CHECK(a_child_goes_on());
    }
    CHECK(ended == 3);
    CHECK(stores == 1);
}

TEST_CASE("a thread that used a library ends after dlclose(3)") {
    int ended = 0;
    std::thread([&] {
        tenure::batch_scope const batch;
        libraries const           loaded;
        loaded.first->make(1, &ended);
        loaded.second->with_batch([](tenure::batch_scope&, void*) {}, nullptr);
    }).join();
    CHECK(ended == 1);
}

}  // namespace

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Instructions, which no neighbour on the machine can disturb: bench/run runs this under callgrind. Each operation
// is dumped under its name and the number of times it was done. What tenure tells valgrind about its memory is no
// part of a normal run, so it is not told here.

#include <memory_resource>
#include <string>
#include <vector>

#include <tenure/tenure.hpp>

#include "callgrind.hpp"
#include "support.hpp"

namespace {

using bench::object;

constexpr std::size_t times = 1000;

/// Once to bring in memory, and once to count.
template <class Prepare, class F>
[[gnu::noinline]] void count(std::string name, Prepare prepare, F operation) {
    name += '/' + std::to_string(times);
    for (bool const counted : {false, true}) {
        auto&& with = prepare();
        if (counted) bench::start_count();
        for (std::size_t i = 0; i != times; ++i) operation(with, i);
        if (counted) bench::dump_count(name);
    }
}

constexpr auto nothing = [] { return 0; };

struct filled {
    tenure::batch_scope                 outer;
    tenure::batch_scope                 batch;
    std::vector<tenure::handle<object>> objects;

    filled() {
        for (std::uint64_t id = 0; id != times; ++id) objects.push_back(batch.make<object>(id));
    }
};

void making() {
    bench::warm_buffer buffer{times * sizeof(object)};
    count(
        "make/floor", [&] { return buffer.data(); },
        [](std::byte*& at, std::size_t id) {
            bench::use(::new (at) object{id});
            at += sizeof(object);
        });
    count(
        "make/pmr_warm",
        [&] {
            return std::pmr::monotonic_buffer_resource{buffer.data(), times * sizeof(object),
                                                       std::pmr::null_memory_resource()};
        },
        [](auto& resource, std::size_t id) { bench::use(::new (resource.allocate(sizeof(object))) object{id}); });
    count(
        "make/tenure", [] { return tenure::batch_scope{}; },
        [](auto& batch, std::size_t id) { bench::use(batch.template make<object>(id)); });
}

void opening() {
    count("open_end/pmr_new_delete", nothing, [](int, std::size_t) {
        std::pmr::monotonic_buffer_resource resource;
        asm volatile("" : : "r"(&resource) : "memory");
    });
    count("open_end/tenure", nothing, [](int, std::size_t) { tenure::batch_scope batch; });
    count("open_make_end/tenure", nothing, [](int, std::size_t id) {
        tenure::batch_scope batch;
        bench::use(batch.make<object>(id));
    });
}

void keeping() {
    count(
        "keep/tenure", [] { return filled{}; },
        [](filled& with, std::size_t i) { with.batch.keep(with.objects[i]); });
}

void reading() {
    count(
        "access/raw", [] { return filled{}; },
        [](filled& with, std::size_t i) { bench::use(with.objects[i].unchecked()->id); });
    count(
        "access/tenure", [] { return filled{}; },
        [](filled& with, std::size_t i) { bench::use(with.objects[i]->id); });
}

}  // namespace

int main() {
    tenure::detail::under_valgrind = false;
    making();
    opening();
    keeping();
    reading();
}

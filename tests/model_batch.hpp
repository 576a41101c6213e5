// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <string>
#include <system_error>
#include <vector>

#include <tenure/tenure.hpp>

inline constexpr std::size_t MiB = std::size_t{1} << 20;

/// A batch without a guard that has a bit of everything, and what must be in it, which depends on `seed`.
struct model_batch {
    tenure::registry&                          r;
    tenure::batch_id                           id;
    std::vector<tenure::handle<std::uint64_t>> small;
    tenure::handle<std::pmr::vector<int>>      container;
    tenure::handle<std::uint64_t[]>            large;
    tenure::handle<std::vector<std::string>>   on_heap;
    std::uint64_t                              seed = 0;

    model_batch(tenure::registry& in, tenure::batch_options const& options, std::size_t large_bytes = 4 * MiB,
                std::uint64_t first_seed = 0)
        : r(in), id(in.new_batch(options)), seed(first_seed) {
        auto const inside = r.enter(id);
        fill(large_bytes);
    }
    ~model_batch() { r.end_batch(id); }
    model_batch(model_batch const&)            = delete;
    model_batch& operator=(model_batch const&) = delete;

    /// Inside.
    void fill(std::size_t large_bytes, std::size_t smalls = 10'000) {
        small.clear();
        for (std::size_t i = 0; i < smalls; ++i) small.push_back(tenure::make<std::uint64_t>());
        large                = tenure::make<std::uint64_t[]>(large_bytes / 8);
        tenure::entered here = r.enter(id);
        container            = tenure::make<std::pmr::vector<int>>(here.resource());
        on_heap              = tenure::make<std::vector<std::string>>(std::size_t{100}, std::string(100, 'x'));
        for (int i = 0; i < 1000; ++i) container->push_back(i);
        write(seed);
    }

    void write(std::uint64_t s) {
        seed = s;
        for (std::size_t i = 0; i < small.size(); ++i) *small[i] = i + seed;
        for (std::size_t i = 0; i < large.size(); ++i) large[i] = i * 3 + seed;
    }
    bool whole() const {
        bool all = true;
        for (std::size_t i = 0; i < small.size(); ++i) all = all && *small[i] == i + seed;
        for (std::size_t i = 0; i < large.size(); ++i) all = all && large[i] == i * 3 + seed;
        for (int i = 0; i < 1000; ++i) all = all && (*container)[static_cast<std::size_t>(i)] == i;
        for (auto const& s : *on_heap) all = all && s == std::string(100, 'x');
        return all;
    }
    std::size_t out() const { return r.usage(id).paged_out; }
};

/// What memory_limit counts, by another way: what batches have in memory, and what threads have in stock.
inline std::size_t in_memory(tenure::registry& r) {
    std::size_t bytes = 0;
    for (tenure::batch_info const& b : r.snapshot().batches) bytes += b.usage.retained - b.usage.paged_out;
    return bytes;
}

inline std::error_code try_page_out(tenure::registry& r, tenure::batch_id id) {
    try {
        r.page_out(id);
    } catch (tenure::error const& e) {
        return e.code();
    }
    return {};
}

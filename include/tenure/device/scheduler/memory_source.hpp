// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include <tenure/device/scheduler/concept.hpp>
#include <tenure/result.hpp>
#include <tenure/store/any_store.hpp>

namespace tenure {

/// What a process has of a device's memory.
struct process_use {
    process_id                 process{};
    std::optional<std::size_t> bytes{};  ///< nullopt: it is there, and the driver does not tell

    friend bool operator==(process_use const&, process_use const&) = default;
};

/// What is known of one device. What the driver does not tell is nullopt, never 0.
struct device_reading {
    device_id                  device{};
    std::optional<std::size_t> free{}, total{};

    /// Those that have memory there. nullopt: not known; a process that is not in the list has none.
    std::optional<std::vector<process_use>> processes{};

    std::error_code why{};  ///< something is not known
};

struct memory_reading {
    std::vector<device_reading> devices{};
    std::vector<process_id>     ended{};  ///< of those that were asked about
};

/// Where a scheduler has its figures from: any callable. It is called with no lock held, by each thread that picks,
/// perhaps by several at once.
template <class M>
concept memory_source = std::move_constructible<M> && requires(M& source, std::span<process_id const> asked) {
    // What is free now, and which of `asked` are over. An error: nothing is known.
    { source(asked) } -> std::same_as<result<memory_reading>>;
};

/// Reads free memory off stores with a capacity, such as a limited_store or the client of a server, one a device:
/// what they have not given out is free. It knows of no processes. Thread-safe as the stores.
class store_memory {
public:
    /// Devices 0, 1, ... in this order.
    explicit store_memory(std::vector<any_store> stores) noexcept : stores_(std::move(stores)) {}

    result<memory_reading> operator()(std::span<process_id const>) const {
        memory_reading all;
        for (std::size_t i = 0; i < stores_.size(); ++i) {
            store_usage const u  = stores_[i].usage();
            device_reading&   at = all.devices.emplace_back(device_reading{{static_cast<std::uint32_t>(i)}});
            if (u.capacity == 0) continue;  // not known
            at.total = u.capacity;
            at.free  = u.capacity - std::min(u.bytes, u.capacity);
        }
        return all;
    }

private:
    std::vector<any_store> stores_;
};

static_assert(memory_source<store_memory>);

}  // namespace tenure

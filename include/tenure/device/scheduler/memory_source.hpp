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

/// The device memory of one process.
struct process_use {
    process_id                 process{};
    std::optional<std::size_t> bytes{};  ///< nullopt: it is there, and the driver does not tell how much it has

    friend bool operator==(process_use const&, process_use const&) = default;
};

/// A reading of one device, in bytes. A figure that the driver does not tell is nullopt, never 0.
struct device_reading {
    device_id                  device{};
    std::optional<std::size_t> free{}, total{};

    /// The processes that have memory there. nullopt: not known. A process that is not in the list has none.
    std::optional<std::vector<process_use>> processes{};

    std::error_code why{};  ///< why something is not known; empty if all is
};

/// A reading of all devices.
struct memory_reading {
    std::vector<device_reading> devices{};
    std::vector<process_id>     ended{};  ///< processes that were asked about and are over
};

/// The source of a scheduler's figures: any callable. Each thread that picks calls it with no lock held, so
/// several threads may call it at once.
template <class M>
concept memory_source = std::move_constructible<M> && requires(M& source, std::span<process_id const> asked) {
    // Returns what is free now, and which of `asked` are over. An error means that nothing is known.
    { source(asked) } -> std::same_as<result<memory_reading>>;
};

/// Reads free memory from stores with a capacity, such as a limited_store or the client of a server, one store a
/// device: what they have not given out is free. It knows of no processes. As thread-safe as the stores.
class store_memory {
public:
    /// Reads the memory of devices 0, 1, ... from these stores, in this order.
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

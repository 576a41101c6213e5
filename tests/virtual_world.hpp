// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <tenure/device/scheduler/memory_aware.hpp>

/// What a memory_aware scheduler reads: the time, and the memory of devices that do not exist.
struct virtual_world {
    using time = std::chrono::steady_clock::time_point;

    time                                now{};
    std::vector<tenure::device_reading> devices{};
    std::vector<tenure::process_id>     ended{};
    std::error_code                     down{};           ///< what reading them says
    std::function<void()>               while_reading{};  ///< after they were read
    std::vector<tenure::process_id>     asked{};          ///< about these, last
    bool                                watching = true;  ///< `asked` is kept: not with several threads

    /// So many devices, with so much memory each, all of it free, and nobody there.
    virtual_world(std::size_t count, std::size_t bytes) {
        for (std::size_t i = 0; i < count; ++i)
            devices.push_back({{static_cast<std::uint32_t>(i)}, bytes, bytes, std::vector<tenure::process_use>{}});
    }

    std::optional<std::size_t>& free(std::size_t device) { return devices[device].free; }

    /// From now on the driver says that of a process.
    void use(std::size_t device, tenure::process_id p, std::optional<std::size_t> bytes) {
        for (tenure::process_use& u : *devices[device].processes)
            if (u.process == p) return void(u.bytes = bytes);
        devices[device].processes->push_back({p, bytes});
    }

    struct source {
        virtual_world* world;

        tenure::result<tenure::memory_reading> operator()(std::span<tenure::process_id const> about) const {
            if (world->watching) world->asked.assign(about.begin(), about.end());
            tenure::memory_reading const reading{world->devices, world->ended};
            if (world->while_reading) std::exchange(world->while_reading, nullptr)();
            if (world->down) return world->down;
            return reading;
        }
    };
    struct clock {
        virtual_world* world;

        time operator()() const noexcept { return world->now; }
    };
};

using virtual_scheduler = tenure::memory_aware<virtual_world::source, virtual_world::clock>;

static_assert(tenure::device_scheduler<virtual_scheduler>);

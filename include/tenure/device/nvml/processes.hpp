// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include <tenure/device/nvml/library.hpp>
#include <tenure/device/scheduler/memory_source.hpp>

namespace tenure::detail {

/// Lists the processes that have memory on a device. The description of a process has grown with drivers, also
/// under one name of the function: 16, 24 or 32 bytes. It begins with the pid and has at 8 what the process uses.
/// To learn its size, the buffer for the driver is filled with a pattern first: words that the driver does not
/// write keep it.
class nvml_processes {
public:
    /// Returns the processes, nullopt if the driver does not tell.
    static std::optional<std::vector<process_use>> read(nvml_api const& call, nvml_api::device device) {
        if (!call.processes) return std::nullopt;
        for (unsigned room = 64; room <= 1u << 20;) {
            std::vector<std::uint64_t> words(room * most_words, pattern);
            unsigned                   count = room;
            int const                  why   = call.processes(device, &count, words.data());
            if (why == nvml_api::insufficient_size) {
                room = std::max(count, room) * 2;
                continue;
            }
            if (why != 0 || count > room) return std::nullopt;
            return parse(words, count);
        }
        return std::nullopt;
    }

private:
    static constexpr std::size_t   most_words = 4;
    static constexpr std::uint64_t pattern    = 0xa5c3'96e1'5a3c'691e;  // no existing pid or size

    static std::optional<std::vector<process_use>> parse(std::vector<std::uint64_t> const& words,
                                                         std::size_t                       count) {
        std::vector<process_use> found;
        if (count == 0) return found;
        std::size_t written = words.size();
        while (written > 0 && words[written - 1] == pattern) --written;
        std::size_t const each = written / count;
        if (written % count != 0 || each < 2 || each > most_words) return std::nullopt;
        for (std::size_t i = 0; i < count; ++i) {
            std::uint32_t pid = 0;
            std::memcpy(&pid, &words[i * each], sizeof pid);
            process_use&        p     = found.emplace_back(process_use{{pid}});
            std::uint64_t const bytes = words[i * each + 1];
            if (bytes != nvml_api::not_available && bytes != pattern) p.bytes = bytes;
        }
        return found;
    }
};

}  // namespace tenure::detail

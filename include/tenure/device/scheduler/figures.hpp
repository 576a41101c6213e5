// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <tenure/device/scheduler/concept.hpp>

namespace tenure {

/// A scheduler's figures of a device, in bytes.
struct device_figures {
    device_id                  device{};
    std::optional<std::size_t> free{}, total{};  ///< as last read; nullopt: not known
    std::size_t                reserved = 0;     ///< for jobs that were placed there and have not allocated it yet
    std::size_t                jobs     = 0;     ///< jobs that were placed there and are not over
    std::optional<std::size_t> available{};      ///< to a job now; nullopt: not known, or no job may go there yet
    std::error_code            why{};            ///< why something is not known; empty if all is
};

/// A scheduler's figures of a kind of job.
struct kind_figures {
    std::string kind{};
    std::size_t observed = 0;  ///< jobs that are over and used something, or were told by observe()
    std::size_t estimate = 0;  ///< bytes that one more job is taken to need
};

/// A scheduler's figures of its devices and of all kinds of job.
struct scheduler_figures {
    std::vector<device_figures> devices{};
    std::vector<kind_figures>   kinds{};

    /// Returns a text for people: a line a device, then a line a kind.
    std::string to_text() const {
        std::string out;
        for (device_figures const& d : devices) {
            out += to_string(d.device) + ": ";
            out += d.free ? std::to_string(*d.free) : "unknown";
            if (d.total) out += " of " + std::to_string(*d.total);
            out +=
                " bytes free, " + std::to_string(d.reserved) + " reserved, " + std::to_string(d.jobs) + " jobs; ";
            out += d.available ? std::to_string(*d.available) + " available" : "not available yet";
            if (d.why) out += " (" + d.why.message() + ")";
            out += "\n";
        }
        for (kind_figures const& k : kinds)
            out += "kind \"" + k.kind + "\": " + std::to_string(k.estimate) + " bytes, from " +
                   std::to_string(k.observed) + " jobs\n";
        return out;
    }
};

}  // namespace tenure

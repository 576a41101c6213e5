// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace demo {

/// Memory of this process that the machine holds, in bytes. Zero where there is no /proc.
struct resident {
    std::size_t now  = 0;
    std::size_t peak = 0;
};

inline resident resident_memory() {
    resident      r;
    std::ifstream status{"/proc/self/status"};
    for (std::string line; std::getline(status, line);) {
        std::istringstream words{line};
        std::string        field;
        std::size_t        kib = 0;
        words >> field >> kib;
        if (field == "VmRSS:") r.now = kib * 1024;
        if (field == "VmHWM:") r.peak = kib * 1024;
    }
    return r;
}

}  // namespace demo

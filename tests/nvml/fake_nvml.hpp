// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

/// What the fake NVML library says: a stand-in for the driver's, so that what reads it can be tested on any
/// machine. A test loads it, too, and finds this under the name `fake_nvml`.
struct fake_nvml_state {
    static constexpr unsigned most_devices = 4, most_processes = 300;

    struct process {
        unsigned           pid;
        unsigned long long bytes;
    };
    struct device {
        unsigned long long total, free;
        int                handle_says, memory_says, processes_say;
        unsigned           count;
        unsigned           claims;  ///< processes that it says it has written, if not 0
        unsigned           asked;   ///< how often it was asked for processes
        process            processes[most_processes];
    };

    int      init_says, count_says;
    unsigned count;
    unsigned process_bytes;  ///< that the driver writes for each: 16, 24 or 32
    device   devices[most_devices];
    int      initialised;  ///< init less shutdown
};

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include "fake_nvml.hpp"

#include <cstring>

#include <tenure/device/nvml.hpp>

// The types of who calls: sanitizers compare them. What is in them is in the published header of NVML.
using handle = tenure::detail::nvml_library::device;
using memory = tenure::detail::nvml_library::memory;

static fake_nvml_state::device* state(handle h) { return reinterpret_cast<fake_nvml_state::device*>(h); }

extern "C" {

extern fake_nvml_state fake_nvml;
fake_nvml_state        fake_nvml{};

int nvmlInit_v2();
int nvmlShutdown();
int nvmlDeviceGetCount_v2(unsigned* count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, handle* device);
int nvmlDeviceGetMemoryInfo(handle device, memory* out);
int nvmlDeviceGetComputeRunningProcesses_v3(handle device, unsigned* count, void* out);

int nvmlInit_v2() {
    if (fake_nvml.init_says == 0) ++fake_nvml.initialised;
    return fake_nvml.init_says;
}

int nvmlShutdown() {
    --fake_nvml.initialised;
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
    *count = fake_nvml.count;
    return fake_nvml.count_says;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, handle* device) {
    if (index >= fake_nvml.count || index >= fake_nvml_state::most_devices) return 2;
    *device = reinterpret_cast<handle>(&fake_nvml.devices[index]);
    return fake_nvml.devices[index].handle_says;
}

int nvmlDeviceGetMemoryInfo(handle which, memory* out) {
    fake_nvml_state::device const* const device = state(which);
    if (device->memory_says) return device->memory_says;
    *out = {device->total, device->free, device->total - device->free};
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(handle which, unsigned* count, void* out) {
    fake_nvml_state::device* const device = state(which);
    if (++device->asked % 1000 == 0) return 999;  // so that nobody asks for ever
    if (device->processes_say) return device->processes_say;
    unsigned const room = *count;
    *count              = device->count;
    if (device->count > room) return 7;
    char* to = static_cast<char*>(out);
    for (unsigned i = 0; i < device->count; ++i, to += fake_nvml.process_bytes) {
        // pid, padding, bytes, then the instances of a device that is no part of one, then protected bytes
        unsigned long long const words[] = {device->processes[i].pid, device->processes[i].bytes, ~0ull, 0};
        std::memcpy(to, words, fake_nvml.process_bytes);
    }
    if (device->claims) *count = device->claims;
    return 0;
}
}

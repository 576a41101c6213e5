// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <system_error>

#include <tenure/device/cuda.hpp>
#include <tenure/device/opencl.hpp>
#include <tenure/device/store.hpp>
#include <tenure/store/heap.hpp>

namespace demo {

/// "kind:1:0" -> {"kind", 1, 0}
struct device_name {
    explicit device_name(std::string const& text) : kind(text.substr(0, text.find(':'))) {
        std::size_t at = kind.size();
        for (unsigned* const n : {&first, &second}) {
            if (at == text.size()) return;
            auto const [end, ec] = std::from_chars(text.data() + at + 1, text.data() + text.size(), *n);
            if (ec != std::errc()) break;
            at = static_cast<std::size_t>(end - text.data());
            ++numbers;
        }
        if (at != text.size()) kind = "";
    }

    std::string kind;
    unsigned    first = 0, second = 0, numbers = 0;
};

/// Calls f(shared_ptr of a store), with the one that `device` names: "host", "cuda:0", "opencl:0", "opencl:1:0".
/// Throws what it says of that; a capacity of 0 is what there is.
template <class F>
auto with_store(std::string const& device, std::uint64_t capacity, F f) {
    device_name const            name(device);
    tenure::device_store_options limits;
    limits.capacity = capacity;
    if (name.kind == "host")
        return f(std::make_shared<tenure::heap_store>(tenure::heap_options{.capacity = capacity}));
    if (name.kind == "cuda" && name.numbers <= 1) {
        tenure::cuda_options o;
        o.device     = static_cast<int>(name.first);
        auto const d = std::make_shared<tenure::cuda_device>(o);
        std::fprintf(stderr, "device: %s\n", d->name().c_str());
        return f(std::make_shared<tenure::device_store<tenure::cuda_device>>(d, limits));
    }
    if (name.kind == "opencl") {
        tenure::opencl_options o;
        o.platform   = name.numbers == 2 ? name.first : 0;
        o.device     = name.numbers == 2 ? name.second : name.first;
        auto const d = std::make_shared<tenure::opencl_device>(o);
        std::fprintf(stderr, "device: %s\n", d->name().c_str());
        return f(std::make_shared<tenure::device_store<tenure::opencl_device>>(d, limits));
    }
    throw tenure::error(
        make_error_code(std::errc::invalid_argument),
        "--device " + device + ": it is host, cuda:NUMBER, opencl:NUMBER or opencl:PLATFORM:NUMBER");
}

}  // namespace demo

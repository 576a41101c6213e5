// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Buffers of a batch that live on a device, and the user's own kernel on them: scale and add, y = a * x + y. Each
// step is a batch of its own; it keeps its result and leaves the rest to the brace. Once in OpenCL, on PoCL if
// there is no GPU, and once in CUDA where there is a driver. Every element is checked.

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <tenure/native.hpp>
#include <tenure/tenure.hpp>

#include "demo/table.hpp"
#include "device_kernel/cuda_axpy.hpp"
#include "device_kernel/opencl_axpy.hpp"

namespace {

using namespace device_kernel;
using tenure::batch_scope;
using tenure::buffer;

struct options {
    std::size_t elements = 1'000'000;
    unsigned    steps = 4, platform = 0, device = 0;
};

options parse(int argc, char** argv) {
    options  o;
    CLI::App app{"y = a * x + y, in OpenCL and in CUDA, on buffers that belong to batches."};
    app.add_option("--elements", o.elements, "Of a vector")
        ->check(CLI::Range(1, 100'000'000))
        ->capture_default_str();
    app.add_option("--steps", o.steps, "One after the other")->check(CLI::Range(1, 1000))->capture_default_str();
    app.add_option("--platform", o.platform, "Of OpenCL, as clinfo -l counts")->capture_default_str();
    app.add_option("--device", o.device, "Of the platform, or of CUDA")->capture_default_str();
    try {
        app.parse(argc, argv);
    } catch (CLI::ParseError const& e) {
        std::exit(app.exit(e));
    }
    return o;
}

/// One step: `x` is needed for it only, and gone at its end.
template <class Axpy>
buffer<float> step(Axpy& axpy, tenure::any_store const& on, std::vector<float> const& x, buffer<float> sum) {
    using device = typename Axpy::device_type;
    batch_scope batch{{.name = "step"}};
    auto const  terms = batch.make_buffer<float>(x.size(), on);
    auto const  next  = batch.make_buffer<float>(x.size(), on);
    terms.write(0, x);
    sum.copy_to(next);  // on the device
    axpy(0.5f, tenure::native<device>(terms), tenure::native<device>(next), x.size());
    return batch.keep(next);
}

template <class Axpy>
void run(std::shared_ptr<typename Axpy::device_type> const& device, options const& o) {
    auto const              store = std::make_shared<tenure::device_store<typename Axpy::device_type>>(device);
    tenure::any_store const on{store};
    Axpy                    axpy{*device};
    std::cout << Axpy::api << ": " << device->name() << "\n";

    std::vector<float> x(o.elements), y(o.elements);
    for (std::size_t i = 0; i != x.size(); ++i) {
        x[i] = static_cast<float>(i % 1000);
        y[i] = 1;
    }
    {
        batch_scope request{{.name = "request"}};
        auto        sum = request.make_buffer<float>(y.size(), on);
        sum.write(0, y);
        for (unsigned i = 0; i != o.steps; ++i) sum = step(axpy, on, x, sum);
        sum.read(0, y);
        auto const used = store->usage();
        std::cout << "  after " << o.steps << " steps: " << used.blocks << " buffers, "
                  << demo::mebibytes(used.bytes) << "\n";
    }
    auto const left = store->usage();
    std::cout << "  after the request: " << left.blocks << " buffers, " << demo::mebibytes(left.bytes) << "\n";

    for (std::size_t i = 0; i != y.size(); ++i) {
        float expected = 1;
        for (unsigned k = 0; k != o.steps; ++k) expected = std::fma(0.5f, x[i], expected);
        if (y[i] != expected)
            throw std::runtime_error("element " + std::to_string(i) + " is " + std::to_string(y[i]) + ", not " +
                                     std::to_string(expected));
    }
    if (left.blocks != 0) throw std::runtime_error("something is left on the device");
    std::cout << "  " << demo::grouped(y.size()) << " elements, all right\n";
}

}  // namespace

int main(int argc, char** argv) try {
    options const o = parse(argc, argv);
    run<opencl_axpy>(
        std::make_shared<tenure::opencl_device>(tenure::opencl_options{.platform = o.platform, .device = o.device}),
        o);
    std::shared_ptr<tenure::cuda_device> gpu;
    try {
        gpu = std::make_shared<tenure::cuda_device>(tenure::cuda_options{.device = static_cast<int>(o.device)});
    } catch (tenure::error const& e) {
        if (e.code() != tenure::errc::device_unavailable) throw;
        std::cout << "none here: " << e.what() << "\n";
    }
    if (gpu) run<cuda_axpy>(gpu, o);
} catch (std::exception const& e) {
    std::cerr << "device_kernel: " << e.what() << "\n";
    return 1;
}

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// A program whose buffers are at a server.

#include <span>

#include <tenure/batch_scope.hpp>
#include <tenure/buffer.hpp>
#include <tenure/registry.hpp>
#include <tenure/remote/client.hpp>

int main() {
    tenure::registry    buffers({.store = tenure::remote_store::connect(tenure::endpoint("unix:tenure.sock"))});
    tenure::batch_scope job(buffers);
    float               numbers[1000]{};
    auto const          remote = job.make_buffer<float>(1000);
    remote.write(0, std::span<float const>(numbers));
    remote.read(0, std::span(numbers));
    return numbers[999] == 0 ? 0 : 1;
}

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#include <tenure/remote/client.hpp>

#include <chrono>

// With and without tenure::remote; nobody is there.
int main() {
    tenure::endpoint const nowhere("unix:/nonexistent/tenure.sock");
    try {
        auto const store =
            tenure::remote_store::connect(nowhere, {.connect_timeout = std::chrono::milliseconds(50)});
        store->async_allocate(8, 8, [](boost::system::error_code, tenure::block) {});
        return store->allocate(8, 8) ? 1 : 2;
    } catch (tenure::error const& e) {
        return e.code() == tenure::errc::device_unavailable || e.code() == tenure::errc::timed_out ? 0 : 3;
    }
}

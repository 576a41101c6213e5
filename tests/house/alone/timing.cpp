// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/timing.hpp>

int main() {
    tenure::registry    r;
    tenure::batch_scope batch(r, {.timeout = std::chrono::hours(1)});
    auto const          token = batch.stop_token();
    bool const          waits = r.expire_overdue() > std::chrono::minutes(1) && !token.stop_requested();
    batch.cancel();
    return waits && token.stop_requested() ? 0 : 1;
}

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/bind_batch.hpp>

int main() {
    int                       called = 0;
    tenure::batch_scope const batch;
    tenure::bind_batch([&] { ++called; }, batch.id())();
    return called == 1 ? 0 : 1;
}

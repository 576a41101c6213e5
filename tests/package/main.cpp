// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#include <tenure/tenure.hpp>

int main() {
    tenure::batch_scope request{{.name = "request"}};
    auto                answer = request.make<int>(42);
    return *answer == 42 && request.end().freed == 1 ? 0 : 1;
}

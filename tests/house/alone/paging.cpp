// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/paging.hpp>

int main() {
    tenure::registry       r;
    tenure::batch_scope    batch(r);
    auto const             number = batch.make<int>(1);
    tenure::batch_id const id     = batch.detach();
    r.page_out(id);
    bool const was_out = r.usage(id).paged_out > 0;
    return was_out && *number == 1 ? 0 : 1;
}

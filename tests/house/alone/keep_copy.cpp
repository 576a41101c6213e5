// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/keep_copy.hpp>

int main() {
    tenure::batch_scope  parent;
    tenure::handle<int>  copy;
    tenure::handle<long> other;
    {
        tenure::batch_scope child;
        copy  = child.keep_copy(child.make<int>(1));
        other = tenure::keep_to(parent, child.make<long>(2));
    }
    return *copy == 1 && *other == 2 ? 0 : 1;
}

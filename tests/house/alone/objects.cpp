// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/batch_scope.hpp>
#include <tenure/objects.hpp>

int main() {
    tenure::registry r;
    r.record_objects();
    tenure::batch_scope batch(r);
    auto const          h = batch.make<int>(1);
    r.name_object(h, "one");
    int n = 0;
    r.for_each_object(batch.id(), [&](tenure::object_info const& o) {
        n += o.type() == "int" && o.name == "one" && o.address == h.get() && !o.place().empty();
    });
    return n == 1 ? 0 : 1;
}

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
// error: slice an object of a class derived from it
#include <tenure/tenure.hpp>

struct base {
    virtual ~base() = default;
};
struct last final : base {};

void use(tenure::batch_scope& request, tenure::handle<last> whole, tenure::handle<base> any) {
    request.keep_copy(whole);
    request.keep(any);
#ifndef TENURE_COMPILES
    request.keep_copy(any);
#endif
}

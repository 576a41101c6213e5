// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
// error: (conversion from|no viable conversion).*handle<.*base>.*handle<.*derived>
#include <tenure/tenure.hpp>

struct base {
    virtual ~base() = default;
};
struct derived : base {};

void use(tenure::handle<derived> d) {
    tenure::handle<base> b = d;
#ifndef TENURE_COMPILES
    tenure::handle<derived> back = b;
#endif
    (void)b;
}

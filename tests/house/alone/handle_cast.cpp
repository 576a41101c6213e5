// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/handle_cast.hpp>

namespace {

struct base {
    virtual ~base() = default;
};
struct derived : base {};

}  // namespace

int main() {
    tenure::handle<derived> const       none;
    tenure::handle<base> const          up       = tenure::static_handle_cast<base>(none);
    tenure::handle<derived> const       down     = tenure::dynamic_handle_cast<derived>(up);
    tenure::handle<derived const> const constant = none;
    return down == nullptr && tenure::const_handle_cast<derived>(constant) == none ? 0 : 1;
}

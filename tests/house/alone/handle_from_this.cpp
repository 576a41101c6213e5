// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/handle_from_this.hpp>

namespace {

struct node : tenure::enable_handle_from_this<node> {};

}  // namespace

int main() {
    node on_the_stack;
    return on_the_stack.handle_from_this() == nullptr ? 0 : 1;
}

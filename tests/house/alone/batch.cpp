// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/batch.hpp>

int main() {
    tenure::batch_options const options{.name = "a"};
    return options.name == "a" ? 0 : 1;
}

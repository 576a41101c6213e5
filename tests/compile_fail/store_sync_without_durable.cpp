// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
// error: the store has sync[(][)], but traits[.]durable is not set
#include "stores/half_store.hpp"

struct half : half_store::minimal {
#ifndef TENURE_COMPILES
    half_store::result<void> sync(std::span<half_store::block const>);
#endif
};

tenure::any_store use(std::shared_ptr<half> s) { return s; }

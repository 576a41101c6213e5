// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
// error: the store has address[(][)], but traits[.]addressable is not set
#include "stores/half_store.hpp"

struct half : half_store::minimal {
#ifndef TENURE_COMPILES
    half_store::result<std::byte*> address(half_store::block);
#endif
};

tenure::any_store use(std::shared_ptr<half> s) { return s; }

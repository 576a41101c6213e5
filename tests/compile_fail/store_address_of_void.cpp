// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
// error: traits[.]addressable is set: then address[(][)].*(s[.]address[(]b[)][^ ]* does not|result<void [*][,>])
#include "stores/half_store.hpp"

struct half : half_store::minimal {
    static constexpr half_store::store_traits traits{.addressable = true};
#ifdef TENURE_COMPILES
    half_store::result<std::byte*> address(half_store::block);
#else
    half_store::result<void*> address(half_store::block);
#endif
};

tenure::any_store use(std::shared_ptr<half> s) { return s; }

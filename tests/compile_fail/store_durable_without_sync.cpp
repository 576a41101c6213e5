// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
// error: traits[.]durable is set.*s[.]sync[(]many[)]
#include "stores/half_store.hpp"

struct half : half_store::minimal {
    static constexpr half_store::store_traits traits{.durable = true};

    half_store::result<void>              keep(half_store::block, std::string_view);
    half_store::result<half_store::block> find(std::string_view);
    half_store::result<void>              close();
#ifdef TENURE_COMPILES
    half_store::result<void> sync(std::span<half_store::block const>);
#endif
};

tenure::any_store use(std::shared_ptr<half> s) { return s; }

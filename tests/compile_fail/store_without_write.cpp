// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
// error: as in minimal_store.*s[.]write[(]b, n, in[)]
#include "stores/half_store.hpp"

struct half {
    static constexpr half_store::store_traits traits{};

    half_store::result<half_store::block> allocate(std::size_t, std::size_t);
    half_store::result<void>              deallocate(std::span<half_store::block const>) noexcept;
    half_store::result<void>              read(half_store::block, std::size_t, std::span<std::byte>);
    tenure::store_usage                   usage() const noexcept;
#ifdef TENURE_COMPILES
    half_store::result<void> write(half_store::block, std::size_t, std::span<std::byte const>);
#endif
};

tenure::any_store use(std::shared_ptr<half> s) { return s; }

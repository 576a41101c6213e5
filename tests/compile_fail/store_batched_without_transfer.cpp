// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
// error: traits[.]batched is set.*s[.]transfer[(]many, batch[)]
#include "stores/half_store.hpp"

struct half : half_store::minimal {
    static constexpr half_store::store_traits traits{.batched = true};

    half_store::result<half_store::block> allocate_in(std::uint64_t, std::size_t, std::size_t);
    half_store::result<void> deallocate_batch(std::uint64_t, std::span<half_store::block const>) noexcept;
#ifdef TENURE_COMPILES
    half_store::result<void> transfer(std::span<half_store::block const>, std::uint64_t);
#endif
};

tenure::any_store use(std::shared_ptr<half> s) { return s; }

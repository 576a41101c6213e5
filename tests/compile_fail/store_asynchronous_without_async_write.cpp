// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
// error: traits[.]asynchronous is set.*s[.]async_write[(]
#include "stores/half_store.hpp"

struct half : half_store::minimal {
    static constexpr half_store::store_traits traits{.asynchronous = true};

    void async_allocate(std::size_t, std::size_t, auto);
    void async_deallocate(std::span<half_store::block const>, auto);
    void async_read(half_store::block, std::size_t, std::span<std::byte>, auto);
#ifdef TENURE_COMPILES
    void async_write(half_store::block, std::size_t, std::span<std::byte const>, auto);
#endif
};

tenure::any_store use(std::shared_ptr<half> s) { return s; }

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>

#include <tenure/batch.hpp>
#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/os.hpp>
#include <tenure/detail/base/word.hpp>
#include <tenure/detail/base/zeroed_atomic.hpp>
#include <tenure/detail/space/tables.hpp>

namespace tenure::detail {

TENURE_SHARED inline bool reserve_tables() noexcept {
    static bool const reserved = [] {
        std::size_t const generation_bytes = unit_count_max * sizeof(word_t);
        std::size_t const region_bytes     = (std::size_t{1} << (address_bits - region_shift)) * sizeof(void*);
        std::size_t const record_bytes     = (std::size_t{1} << record_bits) / records_a_chunk * sizeof(void*);

        // Read-only until used: so it does not count against overcommit, even in the kernel's strict mode.
        void* generations = reserve(generation_bytes, access::read);
        auto* pointers    = static_cast<char*>(reserve(region_bytes + record_bytes, access::read_write));
        if (!generations || !pointers || !make_writable(generations, sizeof(word_t))) {
            if (generations) give_back(generations, generation_bytes);
            if (pointers) give_back(pointers, region_bytes + record_bytes);
            return false;
        }
        auto* words = static_cast<zeroed_atomic<word_t>*>(generations);
        words[0].store(~word_t{0}, std::memory_order_relaxed);
        tables.regions     = reinterpret_cast<zeroed_atomic<region*>*>(pointers);
        tables.records     = reinterpret_cast<zeroed_atomic<batch_record*>*>(pointers + region_bytes);
        tables.generations = words;
        return true;
    }();
    return reserved;
}

inline bool const reserved_at_start = reserve_tables();

}  // namespace tenure::detail

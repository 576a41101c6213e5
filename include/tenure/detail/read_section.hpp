// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>

#include <tenure/detail/hazard.hpp>

namespace tenure::detail {

/// Keeps memory that a handle may lead to from being unmapped while a thread follows the handle without holding
/// its batch: a read-side critical section, as in RCU (McKenney and Slingwine, PDCS 1998). Who may look at which
/// memory, and why the order below is enough, is told in docs/internals/reading.md.
///
/// A reader enters a section, and only then looks at the handle's word or at the table of regions (find_region()).
/// What it finds stays mapped until the section ends. Who unmaps marks the regions as leaving, puts them on the
/// list `departing`, and unmaps them once no section is open that may have begun before; else the last reader does.
///
/// Sections nest, may be long, and run user code. They must not end under a lock: what departs then goes back to
/// its store. Costs a few plain stores.

/// What a section announces; only its address counts.
inline constinit char const reading = 0;

/// Sections that there was no memory to announce.
inline constinit std::atomic<std::size_t> unannounced{0};

/// The memory of stores that no batch uses any more, and which is not unmapped yet.
inline constinit std::atomic<supply*> departing{nullptr};

/// Unmaps what is departing, unless somebody may be looking at it.
void end_departing() noexcept;

class read_section {
public:
    read_section() noexcept : hazard_(&reading) {
        if (!hazard_) [[unlikely]]
            unannounced.fetch_add(1, std::memory_order_seq_cst);
    }
    read_section(read_section const&)            = delete;
    read_section& operator=(read_section const&) = delete;

private:
    struct last_look {
        ~last_look() {
            light_barrier();
            if (departing.load(std::memory_order_relaxed)) [[unlikely]]
                end_departing();
        }
    };
    struct announcement : hazard_guard {
        using hazard_guard::hazard_guard;
        ~announcement() {
            if (!*this) [[unlikely]]
                unannounced.fetch_sub(1, std::memory_order_seq_cst);
        }
    };

    last_look    after_;  // destroyed last: once this section is no longer announced
    announcement hazard_;
};

/// Whether a section may be open that began before what the caller did last. A microsecond or two.
inline bool is_read() noexcept {
    heavy_barrier();
    return unannounced.load(std::memory_order_seq_cst) || is_announced(&reading);
}

}  // namespace tenure::detail

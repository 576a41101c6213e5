// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <tenure/detail/batch_record.hpp>

namespace tenure::detail {

/// A registry's own memory stays until it closes, so whoever has a stale handle may look at what was there. That of
/// stores which single batches name goes back earlier, while other threads may be asking after what was in it. So
/// those who ask, without holding the batch, are counted; and memory that is over goes when nobody is at it (cf.
/// the quiescent states of RCU: McKenney and Slingwine, PDCS 1998). Who comes later finds its generations raised,
/// and looks no further.
inline constinit std::atomic<std::size_t> onlookers{0};
inline constinit std::atomic<supply*>     departing{nullptr};  ///< over, and not gone yet

/// Those that nobody is looking at go now.
void end_departing() noexcept;

/// To be had before one asks whether the handle is alive, and for as long as one follows it without holding its
/// batch. Costs nothing but a look at the table of regions where the memory is a registry's own.
class onlooker {
public:
    onlooker() noexcept = default;
    explicit onlooker(raw_handle h) noexcept { at(h); }
    ~onlooker() {
        if (counted_) [[unlikely]]
            leave();
    }
    onlooker(onlooker const&)            = delete;
    onlooker& operator=(onlooker const&) = delete;

    void at(raw_handle h) noexcept {
        if (h.word != 0) at(to_address(h.pointer));
    }
    void at(std::uintptr_t address) noexcept {
        if (counted_ || !may_go(address)) [[likely]]
            return;
        onlookers.fetch_add(1);
        counted_ = true;
    }

private:
    TENURE_COLD static void leave() noexcept {
        if (onlookers.fetch_sub(1) == 1 && departing.load()) end_departing();
    }

    bool counted_ = false;
};

}  // namespace tenure::detail

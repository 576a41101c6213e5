// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <source_location>
#include <utility>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/word.hpp>
#include <tenure/detail/batch/lane.hpp>
#include <tenure/detail/objects/throwing.hpp>
#include <tenure/detail/uses/use_records.hpp>

namespace tenure::detail {

/// Owns a pin. Empty once that is released, at the latest at the end of the batch that took it.
class pin_guard {
public:
    pin_guard() noexcept = default;

    /// A pin of an object for the lane's batch. Where there is none, `why` says why, and the guard is empty.
    TENURE_DECL pin_guard(lane const& user, raw_handle h, std::source_location where, failure& why) noexcept;

    pin_guard(pin_guard&& other) noexcept
        : pin_(std::exchange(other.pin_, nullptr)), user_(other.user_), serial_(other.serial_) {}
    pin_guard& operator=(pin_guard other) noexcept {
        std::swap(pin_, other.pin_);
        std::swap(user_, other.user_);
        std::swap(serial_, other.serial_);
        return *this;
    }
    ~pin_guard() { release(); }

    bool holds() const noexcept {
        if (!pin_) return false;
        std::uint64_t const s = user_->state.load(std::memory_order_acquire);
        return pin_->serial.load(std::memory_order_acquire) == serial_ &&
               !(s & (batch_flags::ended | batch_flags::retained));
    }

    /// Releases the pin. Does nothing if its batch has ended: the pin is not the guard's then.
    void release() noexcept {
        if (pin_) release_pin();
    }

private:
    TENURE_DECL void release_pin() noexcept;

    pin_record*   pin_    = nullptr;
    batch_front*  user_   = nullptr;
    std::uint64_t serial_ = 0;
};

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace tenure::detail {

/// Memory made elsewhere, with what ends it. Whoever makes one has it until adopt().
class adopted_memory {
public:
    explicit adopted_memory(std::span<std::byte> bytes) noexcept : bytes_(bytes) {}
    adopted_memory(adopted_memory const&)            = delete;
    adopted_memory& operator=(adopted_memory const&) = delete;
    virtual ~adopted_memory()                        = default;

    std::span<std::byte> bytes() const noexcept { return bytes_; }

    /// Leaves the memory to the end of its block. If that has been, ends it now.
    static void adopt(std::unique_ptr<adopted_memory> self) noexcept {
        auto was = state::offered;
        if (!self->state_.compare_exchange_strong(was, state::adopted, std::memory_order_acq_rel))
            return self->give_back();
        [[maybe_unused]] auto* const kept = self.release();  // end() deletes it
    }

    /// Ends the memory, if it was adopted. Called once, when the block ends.
    void end() noexcept {
        if (state_.exchange(state::ended, std::memory_order_acq_rel) != state::adopted) return;
        give_back();
        delete this;
    }

private:
    enum class state : std::uint8_t { offered, adopted, ended };

    virtual void give_back() noexcept = 0;

    std::span<std::byte> const bytes_;
    std::atomic<state>         state_ = state::offered;
};

template <class T, class Deleter>
class adopted_elements final : public adopted_memory {
public:
    adopted_elements(T* first, std::size_t bytes, Deleter deleter)
        : adopted_memory({reinterpret_cast<std::byte*>(first), bytes}),
          first_(first),
          deleter_(std::move(deleter)) {}

private:
    void give_back() noexcept override { deleter_(first_); }

    T*      first_;
    Deleter deleter_;
};

}  // namespace tenure::detail

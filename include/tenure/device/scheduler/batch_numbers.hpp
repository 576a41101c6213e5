// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>
#include <unordered_map>

#include <tenure/detail/base/config.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Maps an adaptor's batches to numbers upstream, where other adaptors may have blocks of the same batches: the
/// end of one must not free another's blocks. The numbers have the highest bit set, so they differ from all
/// batches' own numbers. Thread-safe.
class batch_numbers {
public:
    /// Returns the number of a batch, which is open from now on; 0 for 0. Returns nullopt if memory is full.
    std::optional<std::uint64_t> open(std::uint64_t batch) noexcept {
        if (batch == 0) return batch;
        std::scoped_lock const guard(mutex_);
        auto const             number = [&]() -> std::optional<std::uint64_t> {
            auto const [at, fresh] = upstream_.try_emplace(batch, 0);
            if (fresh) at->second = first | ++last;
            return at->second;
        };
        return run_or<std::bad_alloc>(number, [](auto const&) { return std::nullopt; });
    }

    /// Returns the number of a batch; nullopt if it was never opened, or closed since.
    std::optional<std::uint64_t> find(std::uint64_t batch) noexcept {
        std::scoped_lock const guard(mutex_);
        auto const             at = upstream_.find(batch);
        return at == upstream_.end() ? std::nullopt : std::optional(at->second);
    }

    void close(std::uint64_t batch) noexcept {
        std::scoped_lock const guard(mutex_);
        upstream_.erase(batch);
    }

private:
    static constexpr std::uint64_t                                   first = std::uint64_t{1} << 63;
    TENURE_SHARED static inline constinit std::atomic<std::uint64_t> last{0};

    std::mutex                                       mutex_;
    std::unordered_map<std::uint64_t, std::uint64_t> upstream_;
};

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include <fcntl.h>
#include <unistd.h>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/file.hpp>
#include <tenure/detail/base/os.hpp>

namespace tenure::detail {

/// Counts the mappings that the system still allows this process (vm.max_map_count). Stretches of memory that go
/// out take some. A part is left to threads, allocators and libraries, which need mappings too.
///
/// Counting takes 10 to 30 ms if there are 65,530 mappings, and next to nothing if there are few. So it is
/// repeated only when half of the room found last may be used up.
class mapping_budget {
public:
    /// Admits `more` mappings. Returns false if they would touch the reserve. Unless `asked` is set, a refusal
    /// stands for a tenth of a second.
    bool admit(std::size_t more, bool asked) noexcept {
        if (since_.fetch_add(more, std::memory_order_relaxed) + more <= allowed_.load(std::memory_order_relaxed))
            return true;
        if (look(more, asked)) return true;
        since_.fetch_sub(more, std::memory_order_relaxed);
        return false;
    }

private:
    static constexpr std::uint64_t a_while = 100'000'000;  // ns

    bool look(std::size_t more, bool asked) noexcept {
        std::uint64_t const now = coarse_now();
        if (!asked && now - refused_at_.load(std::memory_order_relaxed) < a_while) return false;
        std::size_t const limit = most(), there = count();
        if (limit == 0 || there == 0) {  // the system does not tell
            allowed_.store(std::numeric_limits<std::size_t>::max() / 2, std::memory_order_relaxed);
            return true;
        }
        std::size_t const taken = there + std::max<std::size_t>(limit / 16, 64);
        std::size_t const room  = limit > taken ? limit - taken : 0;
        if (room < more) {
            allowed_.store(0, std::memory_order_relaxed);
            refused_at_.store(now, std::memory_order_relaxed);
            return false;
        }
        since_.store(more, std::memory_order_relaxed);
        allowed_.store(std::max(room / 2, more), std::memory_order_relaxed);
        return true;
    }

    static std::size_t most() noexcept {
        unique_fd const      fd(::open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC));
        std::array<char, 32> text{};
        if (!fd || ::read(fd.get(), text.data(), text.size() - 1) <= 0) return 0;
        return std::strtoul(text.data(), nullptr, 10);
    }

    /// Returns the number of lines in /proc/self/maps, 0 if it cannot be opened.
    static std::size_t count() noexcept {
        unique_fd const fd(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
        if (!fd) return 0;
        std::array<char, 4096> text;
        std::size_t            n = 0;
        for (::ssize_t got; (got = ::read(fd.get(), text.data(), text.size())) > 0;)
            n += static_cast<std::size_t>(std::count(text.data(), text.data() + got, '\n'));
        return n;
    }

    std::atomic<std::size_t>   since_{0};    ///< admitted since the last count
    std::atomic<std::size_t>   allowed_{0};  ///< how many may be admitted before the next count
    std::atomic<std::uint64_t> refused_at_{0};
};
TENURE_SHARED inline constinit mapping_budget mappings{};

}  // namespace tenure::detail

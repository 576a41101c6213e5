// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include <tenure/store/concept.hpp>

namespace tenure {

/// Calls of one operation of a counted_store.
struct counted_calls {
    std::uint64_t calls  = 0;
    std::uint64_t errors = 0;  ///< calls that returned an error

    friend bool operator==(counted_calls const&, counted_calls const&) = default;
};

/// What passed through a counted_store. made = live + freed, in bytes and in blocks.
struct counted_figures {
    std::uint64_t bytes = 0, blocks = 0;            ///< live
    std::uint64_t peak_bytes = 0, peak_blocks = 0;  ///< the most that were live at once
    std::uint64_t bytes_made = 0, blocks_made = 0;
    std::uint64_t bytes_freed = 0, blocks_freed = 0;
    std::uint64_t bytes_read = 0, bytes_written = 0, bytes_copied = 0;  ///< by calls without an error

    counted_calls allocate, deallocate, read, write, address, keep, find, sync, close, copy;

    /// Blocks made, by size: first those of 0 bytes; then entry n has those from 2^(n-1) to 2^n - 1.
    std::array<std::uint64_t, std::numeric_limits<std::size_t>::digits + 1> sizes{};

    friend bool operator==(counted_figures const&, counted_figures const&) = default;

    /// Returns text: a line for each kind of figure, operation and size that occurred.
    std::string to_text() const {
        std::string out = "live " + both(bytes, blocks) + ", at most " + both(peak_bytes, peak_blocks) + "\nmade " +
                          both(bytes_made, blocks_made) + ", freed " + both(bytes_freed, blocks_freed) + "\n";
        for (operation const& o : operations) {
            counted_calls const& c = this->*o.calls;
            if (!c.calls) continue;
            out.append(o.name).append(": ").append(std::to_string(c.calls)).append(" calls");
            if (o.bytes && this->*o.bytes) out.append(", ").append(std::to_string(this->*o.bytes)).append(" bytes");
            if (c.errors) out.append(", ").append(std::to_string(c.errors)).append(" errors");
            out += "\n";
        }
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            if (!sizes[i]) continue;
            out += i == 0 ? "of 0 bytes" : "from " + std::to_string(std::uint64_t{1} << (i - 1)) + " bytes";
            out += ": " + std::to_string(sizes[i]) + "\n";
        }
        return out;
    }

private:
    template <backing_store Upstream>
    friend class counted_store;

    /// Returns what was counted since `begin`. These figures' peaks are since then, too.
    counted_figures since(counted_figures const& begin) const noexcept {
        auto const      less = [](std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; };
        counted_figures f    = *this;
        for (auto const n : {&counted_figures::bytes_made, &counted_figures::blocks_made,
                             &counted_figures::bytes_freed, &counted_figures::blocks_freed})
            f.*n -= begin.*n;
        for (operation const& o : operations) {
            (f.*o.calls).calls -= (begin.*o.calls).calls;
            (f.*o.calls).errors -= (begin.*o.calls).errors;
            if (o.bytes) f.*o.bytes -= begin.*o.bytes;
        }
        for (std::size_t i = 0; i < sizes.size(); ++i) f.sizes[i] -= begin.sizes[i];
        f.bytes       = less(f.bytes_made, f.bytes_freed);
        f.blocks      = less(f.blocks_made, f.blocks_freed);
        f.peak_bytes  = less(peak_bytes, begin.bytes);
        f.peak_blocks = less(peak_blocks, begin.blocks);
        return f;
    }

    struct operation {
        char const*   name;
        counted_calls counted_figures::* calls;
        std::uint64_t counted_figures::* bytes = nullptr;
    };
    static operation const operations[10];  ///< in the order of store_operation

    static std::string both(std::uint64_t n, std::uint64_t in) {
        return std::to_string(n) + " bytes in " + std::to_string(in) + " blocks";
    }
};

inline constexpr counted_figures::operation counted_figures::operations[10] = {
    {"allocate", &counted_figures::allocate},
    {"deallocate", &counted_figures::deallocate},
    {"read", &counted_figures::read, &counted_figures::bytes_read},
    {"write", &counted_figures::write, &counted_figures::bytes_written},
    {"address", &counted_figures::address},
    {"keep", &counted_figures::keep},
    {"find", &counted_figures::find},
    {"sync", &counted_figures::sync},
    {"close", &counted_figures::close},
    {"copy", &counted_figures::copy, &counted_figures::bytes_copied},
};

}  // namespace tenure

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

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

    /// Returns text: a line for each kind of figure, operation and size that occurred.
    std::string to_text() const {
        std::string out = "live " + both(bytes, blocks) + ", at most " + both(peak_bytes, peak_blocks) + "\nmade " +
                          both(bytes_made, blocks_made) + ", freed " + both(bytes_freed, blocks_freed) + "\n";
        line(out, "allocate", allocate);
        line(out, "deallocate", deallocate);
        line(out, "read", read, bytes_read);
        line(out, "write", write, bytes_written);
        line(out, "address", address);
        line(out, "keep", keep);
        line(out, "find", find);
        line(out, "sync", sync);
        line(out, "close", close);
        line(out, "copy", copy, bytes_copied);
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            if (!sizes[i]) continue;
            out += i == 0 ? "of 0 bytes" : "from " + std::to_string(std::uint64_t{1} << (i - 1)) + " bytes";
            out += ": " + std::to_string(sizes[i]) + "\n";
        }
        return out;
    }

private:
    static std::string both(std::uint64_t n, std::uint64_t in) {
        return std::to_string(n) + " bytes in " + std::to_string(in) + " blocks";
    }

    static void line(std::string& out, char const* name, counted_calls c, std::uint64_t moved = 0) {
        if (!c.calls) return;
        out.append(name).append(": ").append(std::to_string(c.calls)).append(" calls");
        if (moved) out.append(", ").append(std::to_string(moved)).append(" bytes");
        if (c.errors) out.append(", ").append(std::to_string(c.errors)).append(" errors");
        out += "\n";
    }
};

}  // namespace tenure

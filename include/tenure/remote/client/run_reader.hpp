// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <tenure/remote/client/epochs.hpp>
#include <tenure/remote/protocol.hpp>

namespace tenure::detail::remote {

/// Reads a list of blocks as runs, in its order: consecutive numbers, up or down, with equal bytes. Leaves out
/// blocks that went with an earlier session. Each run is made when it is read, so a list of any length needs no
/// memory.
class run_reader {
public:
    run_reader() = default;
    run_reader(std::span<block const> many, std::size_t from, epochs const& gone) noexcept
        : many_(many), at_(from), gone_(&gone) {}

    /// Reads the next run. Returns false if there are no more.
    bool next(protocol::block_run& run) noexcept {
        while (at_ < many_.size() && gone_->lost(many_[at_].id)) ++at_;
        if (at_ == many_.size()) return false;
        // No run may end beyond the last number there is. No block has that number, nor 0.
        std::uint64_t const first = many_[at_].id == ~std::uint64_t{0} ? 0 : many_[at_].id;
        std::uint64_t const bytes = many_[at_].bytes;
        std::uint64_t       n     = 1;
        auto const          goes  = [&](std::uint64_t id) {
            return at_ + n < many_.size() && many_[at_ + n].id == id && many_[at_ + n].bytes == bytes;
        };
        bool const down = first > 1 && goes(first - 1);
        if (down)
            while (first > n && goes(first - n)) ++n;
        else
            while (first + n != ~std::uint64_t{0} && goes(first + n)) ++n;
        at_ += n;
        run.first = down ? first - n + 1 : first;
        run.bytes = bytes;
        run.count = n;
        return true;
    }

    /// Returns the index of the block that comes next.
    std::size_t at() const noexcept { return at_; }

private:
    std::span<block const> many_;
    std::size_t            at_   = 0;
    epochs const*          gone_ = nullptr;
};

}  // namespace tenure::detail::remote

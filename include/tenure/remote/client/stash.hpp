// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>

#include <tenure/detail/spin_lock.hpp>
#include <tenure/remote/protocol.hpp>

namespace tenure::detail::remote {

/// Blocks of which allocations are the same: what is asked for is likely asked for again.
struct block_kind {
    std::uint64_t batch     = 0;
    std::size_t   bytes     = 0;
    std::size_t   alignment = 0;

    friend bool operator==(block_kind const&, block_kind const&) = default;
};

/// Small blocks that came before anybody asked for them, of a few kinds. The first request of a kind asks for one
/// block, the next for two, then four: so who makes one pays for one, and who makes many waits rarely. They are
/// held at the server, and by nobody here. What nobody wants goes back: see leaving(). Thread-safe; a lock for a
/// few loads and stores.
class stash {
public:
    static constexpr std::size_t largest = 64 << 10;  ///< bytes of a block
    static constexpr std::size_t most    = 512;       ///< blocks in one request

    explicit stash(std::size_t ahead) noexcept : ahead_(ahead) {}

    /// One of that kind; else, in `ask`, how many to ask the server for. If that is more than one, put() or
    /// failed() follows.
    std::optional<block> take(block_kind const& kind, std::size_t& ask) noexcept {
        ask = 1;
        if (kind.bytes > largest || ahead_ == 0) return {};
        std::scoped_lock const guard(lock_);
        shelf*                 s = find(kind);
        if (!s) s = make(kind);
        if (!s) return {};
        s->used = ++now_;
        if (s->runs != 0) {
            spare_run&  r = s->run[s->runs - 1];
            block const b{r.first++, kind.bytes};
            if (--r.count == 0) --s->runs;
            count(kind.bytes, -1);
            return b;
        }
        if (s->fetching) return {};
        std::size_t const fit = ahead_ / std::max<std::size_t>(kind.bytes, 1) + 1;
        s->ask                = std::min({std::max<std::size_t>(s->ask * 2, 1), most, fit});
        s->fetching           = s->ask > 1;
        ask                   = s->ask;
        return {};
    }

    /// These came beyond what was asked for.
    void put(block_kind const& kind, std::uint64_t first, std::uint64_t n) noexcept {
        std::scoped_lock const guard(lock_);
        count(kind.bytes, static_cast<std::int64_t>(n));
        shelf* const s = find(kind);
        if (s) s->fetching = false;
        if (s && s->runs != s->run.size()) s->run[s->runs++] = {first, n};
        else leave(kind.bytes, {first, n});
    }

    /// What was asked for did not come: next time one, again.
    void failed(block_kind const& kind) noexcept {
        std::scoped_lock const guard(lock_);
        if (shelf* const s = find(kind)) {
            s->fetching = false;
            s->ask      = 0;
        }
    }

    /// The batch has ended, and with it what was in it: nobody is to get that.
    void drop(std::uint64_t batch) noexcept {
        std::scoped_lock const guard(lock_);
        for (shelf& s : shelves_) {
            if (s.kind.batch != batch) continue;
            for (std::size_t i = 0; i < s.runs; ++i)
                count(s.kind.bytes, -static_cast<std::int64_t>(s.run[i].count));
            s = {};
        }
    }

    /// The session is over, and all is gone.
    void drop_all() noexcept {
        std::scoped_lock const guard(lock_);
        for (shelf& s : shelves_) s = {};
        leaving_ = 0;
        any_leaving_.store(false, std::memory_order_relaxed);
        bytes_.store(0, std::memory_order_relaxed);
        blocks_.store(0, std::memory_order_relaxed);
    }

    /// What was not asked for since this was called last, or all of it, leaves.
    void sweep(bool all) noexcept {
        std::scoped_lock const guard(lock_);
        for (shelf& s : shelves_)
            if (all || s.used <= swept_) empty(s);
        swept_ = now_;
    }

    /// Takes out what is to go back to the server, as many runs as there is room for. Returns how many.
    std::size_t leaving(std::span<protocol::block_run> out) noexcept {
        if (!any_leaving_.load(std::memory_order_relaxed)) return 0;
        std::scoped_lock const guard(lock_);
        std::size_t            n = 0;
        while (n < out.size() && leaving_ != 0) {
            out[n] = leave_[--leaving_];
            count(out[n].bytes, -static_cast<std::int64_t>(out[n].count));
            ++n;
        }
        any_leaving_.store(leaving_ != 0, std::memory_order_relaxed);
        return n;
    }

    std::int64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
    std::int64_t blocks() const noexcept { return blocks_.load(std::memory_order_relaxed); }

private:
    struct spare_run {
        std::uint64_t first = 0, count = 0;
    };
    struct shelf {
        block_kind               kind{};
        bool                     fetching = false;
        std::size_t              ask      = 0;  ///< how many the last time
        std::uint64_t            used     = 0;  ///< when; 0: this is no kind's
        std::size_t              runs     = 0;
        std::array<spare_run, 8> run{};
    };

    shelf* find(block_kind const& kind) noexcept {
        for (shelf& s : shelves_)
            if (s.used != 0 && s.kind == kind) return &s;
        return nullptr;
    }

    /// In the place of the one that was used longest ago. Null: there is no room for what that has.
    shelf* make(block_kind const& kind) noexcept {
        shelf& s = *std::ranges::min_element(shelves_, {}, &shelf::used);
        if (leave_.size() - leaving_ < s.runs) return nullptr;
        empty(s);
        s.kind = kind;
        return &s;
    }

    void empty(shelf& s) noexcept {
        for (std::size_t i = 0; i < s.runs; ++i) leave(s.kind.bytes, s.run[i]);
        s = {};
    }

    /// Where there is no room it stays, until the session is over; it counts as before.
    void leave(std::size_t bytes, spare_run const& r) noexcept {
        if (leaving_ == leave_.size()) return;
        leave_[leaving_].first = r.first;
        leave_[leaving_].bytes = bytes;
        leave_[leaving_].count = r.count;
        ++leaving_;
        any_leaving_.store(true, std::memory_order_relaxed);
    }

    void count(std::size_t bytes, std::int64_t n) noexcept {
        auto const add = [](std::atomic<std::int64_t>& to, std::int64_t x) {
            to.store(to.load(std::memory_order_relaxed) + x, std::memory_order_relaxed);
        };
        add(bytes_, static_cast<std::int64_t>(bytes) * n);
        add(blocks_, n);
    }

    std::size_t const                    ahead_;
    spin_lock                            lock_;
    std::array<shelf, 8>                 shelves_{};
    std::array<protocol::block_run, 128> leave_;  ///< the first `leaving_` are to go back
    std::size_t                          leaving_ = 0;
    std::atomic<bool>                    any_leaving_{false};
    std::uint64_t                        now_ = 0, swept_ = 0;
    std::atomic<std::int64_t>            bytes_{0}, blocks_{0};  ///< changed under the lock
};

}  // namespace tenure::detail::remote

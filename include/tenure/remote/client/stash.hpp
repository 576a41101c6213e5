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
#include <vector>

#include <tenure/detail/base/spin_lock.hpp>
#include <tenure/remote/client/shelves.hpp>
#include <tenure/remote/protocol.hpp>

namespace tenure::detail::remote {

/// Small blocks that were fetched before anybody asked for them. The first request of a kind asks for one block,
/// the next for two, then four: a caller that makes one pays for one, a caller that makes many rarely waits. The
/// server holds them; no caller has them. Those that nobody wants go back: see leaving().
///
/// A few kinds are fetched with just the bytes that are asked for. If there are more sizes, blocks of a size class
/// are fetched, and trimmed when they are given out. The server hears of it just before the next request: see
/// trims(). So many sizes cost no more than one, and the server knows every block's true bytes.
///
/// Thread-safe, by a lock that is held for a few loads and stores.
class stash {
public:
    static constexpr std::size_t   largest    = 64 << 10;  ///< bytes of a block
    static constexpr std::size_t   most       = 512;       ///< blocks in one request
    static constexpr std::size_t   most_trims = 512;       ///< trims that wait to be told
    static constexpr std::uint64_t patience = 1024;  ///< uses of other kinds, before a shelf of `exact_` gives way

    /// `ahead`: the most bytes of a kind to fetch; `in_flight`: the most requests without an answer. Throws
    /// std::bad_alloc.
    stash(std::size_t ahead, std::size_t in_flight) : ahead_(ahead) {
        if (ahead == 0) return;
        by_class_.emplace();
        trims_.reserve(most_trims + in_flight + 2);
    }

    /// What to ask the server for.
    struct wanted {
        std::size_t count = 1;
        std::size_t bytes = 0;  ///< of each; if more than were asked for, the blocks are to be trimmed
    };

    /// Returns a block of that kind, or sets `ask` to what to ask the server for. If that is several blocks, put()
    /// or failed() must follow.
    std::optional<block> take(block_kind const& kind, wanted& ask) noexcept {
        ask = {1, kind.bytes};
        if (kind.bytes > largest || ahead_ == 0) return {};
        std::scoped_lock const guard(lock_);
        shelf*                 s      = find_or_make(exact_, kind, patience);
        bool const             rounds = !s && rounds_;
        if (rounds && by_class_) {
            block_kind const rounded{kind.batch, size_class::of(kind.bytes).bytes, kind.alignment};
            s = find_or_make(shelves_for(*by_class_, rounded), rounded, 0);
        }
        if (!s) return {};
        s->used = ++now_;
        if (s->runs != 0) {
            if (rounds && trims_.size() >= most_trims) return {};
            block const b{s->take(), kind.bytes};
            count(s->kind.bytes, -1);
            trim(b, s->kind.bytes, kind.batch);
            return b;
        }
        if (s->fetching) return {};
        std::size_t const fit = ahead_ / std::max<std::size_t>(s->kind.bytes, 1) + 1;
        s->ask                = std::min({std::max<std::size_t>(s->ask * 2, 1), most, fit});
        s->fetching           = s->ask > 1;
        ask.count             = s->ask;
        if (s->fetching) ask.bytes = s->kind.bytes;
        return {};
    }

    /// Adds the blocks that came beyond what was asked for.
    void put(block_kind const& kind, std::uint64_t first, std::uint64_t n) noexcept {
        std::scoped_lock const guard(lock_);
        count(kind.bytes, static_cast<std::int64_t>(n));
        shelf* const s = fetching(kind);
        if (s) s->fetching = false;
        if (!s || !s->put({first, n})) leave(kind.bytes, {first, n});
    }

    /// Notes that the blocks did not come: the next request asks for one again.
    void failed(block_kind const& kind) noexcept {
        std::scoped_lock const guard(lock_);
        if (shelf* const s = fetching(kind)) {
            s->fetching = false;
            s->ask      = 0;
        }
    }

    /// Notes that a block of that batch, with `bytes` bytes at the server, came for a caller that asked for fewer,
    /// or as many.
    void came_for(block b, std::size_t bytes, std::uint64_t batch) noexcept {
        std::scoped_lock const guard(lock_);
        trim(b, bytes, batch);
    }

    /// Forgets the trims of a batch that is about to end.
    void forget_trims(std::uint64_t batch) noexcept {
        std::scoped_lock const guard(lock_);
        std::erase_if(trims_, [&](trim_of const& t) {
            if (t.batch == batch) add(bytes_, -t.less);
            return t.batch == batch;
        });
        note_waiting();
    }

    /// Drops the spare blocks of a batch that has ended: nobody is to get them.
    void drop(std::uint64_t batch) noexcept {
        std::scoped_lock const guard(lock_);
        for_each([&](shelf& s) {
            if (s.used == 0 || s.kind.batch != batch) return;
            for (std::size_t i = 0; i < s.runs; ++i)
                count(s.kind.bytes, -static_cast<std::int64_t>(s.run[i].count));
            s = {};
        });
    }

    /// Drops everything: the session is over.
    void drop_all() noexcept {
        std::scoped_lock const guard(lock_);
        for_each([](shelf& s) { s = {}; });
        leaving_ = 0;
        trims_.clear();
        waiting_.store(false, std::memory_order_relaxed);
        bytes_.store(0, std::memory_order_relaxed);
        blocks_.store(0, std::memory_order_relaxed);
        rounds_ = false;
    }

    /// Sets whether the server trims blocks. If not, there are no size classes.
    void round(bool may) noexcept {
        std::scoped_lock const guard(lock_);
        rounds_ = may;
    }

    /// Marks spare blocks to go back: those of kinds not asked for since the last call, or all.
    void sweep(bool all) noexcept {
        std::scoped_lock const guard(lock_);
        for_each([&](shelf& s) {
            if (s.used != 0 && (all || s.used <= swept_)) static_cast<void>(empty(s));
        });
        swept_ = now_;
    }

    /// Takes out what is to go back to the server, as many runs as there is room for. Returns how many.
    std::size_t leaving(std::span<protocol::block_run> out) noexcept {
        if (!waiting_.load(std::memory_order_relaxed)) return 0;
        std::scoped_lock const guard(lock_);
        std::size_t            n = 0;
        while (n < out.size() && leaving_ != 0) {
            out[n] = leave_[--leaving_];
            count(out[n].bytes, -static_cast<std::int64_t>(out[n].count));
            ++n;
        }
        note_waiting();
        return n;
    }

    /// Returns whether there may be trims. The server must hear of them before anything that names their blocks.
    /// True also while blocks are to go back.
    bool has_trims() const noexcept { return waiting_.load(std::memory_order_acquire); }
    bool has_many_trims() noexcept {
        if (!has_trims()) return false;
        std::scoped_lock const guard(lock_);
        return trims_.size() >= most_trims / 2;
    }
    /// What trims() took out: runs, and by how many bytes their blocks are smaller.
    struct trimming {
        std::size_t  runs  = 0;
        std::int64_t bytes = 0;
    };
    /// Takes out trims, as many runs as there is room for. Pass their bytes to trimmed() when the server has
    /// answered.
    trimming trims(std::span<protocol::block_run> out) noexcept {
        std::scoped_lock const guard(lock_);
        trimming               t;
        std::size_t            done = 0;
        for (; done < trims_.size(); ++done) {
            auto const& [b, less, batch]    = trims_[done];
            protocol::block_run* const last = t.runs == 0 ? nullptr : &out[t.runs - 1];
            if (last && last->bytes == b.bytes && last->first + last->count == b.id) last->count += 1;
            else if (t.runs == out.size()) break;
            else out[t.runs++] = {b.id, b.bytes, 1};
            t.bytes += less;
        }
        trims_.erase(trims_.begin(), trims_.begin() + static_cast<std::ptrdiff_t>(done));
        note_waiting();
        return t;
    }
    void trimmed(std::int64_t bytes) noexcept {
        std::scoped_lock const guard(lock_);
        add(bytes_, -bytes);
    }

    /// Returns the bytes that the server counts and nobody was given: whole blocks, and the surplus of trimmed
    /// ones until the server has answered.
    std::int64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
    std::int64_t blocks() const noexcept { return blocks_.load(std::memory_order_relaxed); }

private:
    struct trim_of {
        block         b;
        std::int64_t  less  = 0;
        std::uint64_t batch = 0;
    };

    void trim(block b, std::size_t from, std::uint64_t batch) noexcept {
        if (b.bytes == from) return;
        auto const less = static_cast<std::int64_t>(from - b.bytes);
        trims_.push_back({b, less, batch});  // there is room
        add(bytes_, less);
        waiting_.store(true, std::memory_order_release);
    }

    /// Returns the kind's shelf. If it has none, the shelf used longest ago becomes the kind's. Null if that was
    /// one of the last `recent` uses, or there is no room for what it has.
    shelf* find_or_make(std::span<shelf> among, block_kind const& kind, std::uint64_t recent) noexcept {
        if (shelf* const s = find_shelf(among, kind)) return s;
        shelf& s = *std::ranges::min_element(among, {}, &shelf::used);
        if ((s.used != 0 && now_ - s.used < recent) || !empty(s)) return nullptr;
        s.kind = kind;
        return &s;
    }

    /// Returns a shelf that has asked for such blocks, or null. If two have, it does not matter which gets the
    /// blocks.
    shelf* fetching(block_kind const& kind) noexcept {
        shelf* s = find_shelf(exact_, kind);
        if (by_class_ && !(s && s->fetching)) s = find_shelf(shelves_for(*by_class_, kind), kind);
        return s && s->fetching ? s : nullptr;
    }

    template <class F>
    void for_each(F f) noexcept {
        std::ranges::for_each(exact_, f);
        if (!by_class_) return;
        for (auto& row : *by_class_) std::ranges::for_each(row, f);
    }

    /// Marks all blocks of the shelf to go back, and clears it. Returns false if there is no room for them.
    bool empty(shelf& s) noexcept {
        if (leave_.size() - leaving_ < s.runs) return false;
        for (std::size_t i = 0; i < s.runs; ++i) leave(s.kind.bytes, s.run[i]);
        s = {};
        return true;
    }

    /// Marks a run to go back. Without room it stays at the server until the session is over, and counts as
    /// before.
    void leave(std::size_t bytes, spare_run const& r) noexcept {
        if (leaving_ == leave_.size()) return;
        leave_[leaving_++] = {r.first, bytes, r.count};
        waiting_.store(true, std::memory_order_release);
    }

    void note_waiting() noexcept { waiting_.store(leaving_ != 0 || !trims_.empty(), std::memory_order_relaxed); }

    void count(std::size_t bytes, std::int64_t n) noexcept {
        add(bytes_, static_cast<std::int64_t>(bytes) * n);
        add(blocks_, n);
    }
    static void add(std::atomic<std::int64_t>& to, std::int64_t x) noexcept {
        to.store(to.load(std::memory_order_relaxed) + x, std::memory_order_relaxed);
    }

    std::size_t const                    ahead_;
    spin_lock                            lock_;
    std::array<shelf, 8>                 exact_{};   ///< of the kinds that come often
    std::optional<class_shelves>         by_class_;  ///< empty: nothing is fetched ahead
    bool                                 rounds_ = false;
    std::array<protocol::block_run, 128> leave_;  ///< the first `leaving_` are to go back
    std::size_t                          leaving_ = 0;
    std::vector<trim_of>                 trims_;
    std::atomic<bool>                    waiting_{false};  ///< something leaves, or is to be told
    std::uint64_t                        now_ = 0, swept_ = 0;
    std::atomic<std::int64_t>            bytes_{0}, blocks_{0};  ///< changed under the lock
};

}  // namespace tenure::detail::remote

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <tenure/batch.hpp>
#include <tenure/detail/base/clocks.hpp>

namespace tenure::detail {

/// What a thread can wait for: an index of batch_rest::waited.
enum class wait_for : std::uint8_t { memory, store, batch };
inline constexpr std::size_t waits_known = 3;

/// Waits in a batch that go on. Of more than four threads at once, others' waits count when they are over. No lock.
class waits_under_way {
public:
    /// Notes that a thread waits since then, in nanoseconds. Returns what to give to end(): null if it is not
    /// noted.
    std::atomic<std::uint64_t>* begin(wait_for what, std::uint64_t since) noexcept {
        for (auto& place : places_) {
            std::uint64_t free = 0;
            if (place.compare_exchange_strong(free, since << 2 | static_cast<std::uint64_t>(what),
                                              std::memory_order_relaxed))
                return &place;
        }
        return nullptr;
    }
    static void end(std::atomic<std::uint64_t>* place) noexcept {
        if (place) place->store(0, std::memory_order_relaxed);
    }

    /// Returns the nanoseconds so far.
    std::uint64_t so_far(std::size_t what, std::uint64_t now) const noexcept {
        std::uint64_t sum = 0;
        for (auto const& place : places_) {
            std::uint64_t const p = place.load(std::memory_order_relaxed);
            if (p != 0 && (p & 3) == what) sum += now - std::min(p >> 2, now);
        }
        return sum;
    }

    /// In a forked child, whose threads are others.
    void forget() noexcept {
        for (auto& place : places_)
            if (place.load(std::memory_order_relaxed)) end(&place);  // a page that is written is copied
    }

private:
    std::array<std::atomic<std::uint64_t>, 4> places_{};
};

/// What save() writes of a job besides its buffers, and restore() adds to: nanoseconds. New ones come last, so that
/// what is shorter is older.
struct carried_figures {
    std::uint64_t                          done = 0, total = 0;
    std::uint64_t                          elapsed = 0;
    std::array<std::uint64_t, waits_known> waited{};
};

/// How far a job is, as it says now and then. Times are nanoseconds of one clock. No lock.
///
/// The rate is that of the last eighth to quarter of the time since the job first said something: so it follows a
/// job that gets slower, and single steps do not move it.
class progress_meter {
public:
    void note(std::uint64_t done, std::uint64_t total, std::uint64_t now) noexcept {
        if (!said_ || done < now_.done) first_ = older_ = newer_ = {done, now};  // it begins, or begins again
        said_  = true;
        now_   = {done, now};
        total_ = total;
        if ((now - newer_.at) * 8 < now - first_.at) return;
        older_ = newer_;
        newer_ = now_;
    }

    /// Goes on where another one was. What it did is no part of the rate.
    void go_on(carried_figures const& from, std::uint64_t now) noexcept {
        before_ += from.elapsed;
        for (std::size_t i = 0; i < waits_known; ++i) waited_[i] += from.waited[i];
        if (from.done || from.total) note(from.done, from.total, now);
    }

    bool          has_said() const noexcept { return said_; }
    std::uint64_t done() const noexcept { return now_.done; }
    std::uint64_t total() const noexcept { return total_; }
    std::uint64_t last() const noexcept { return now_.at; }
    std::uint64_t before() const noexcept { return before_; }
    std::uint64_t waited_before(std::size_t what) const noexcept { return waited_[what]; }

    /// Returns what is done in a second, lately; 0 if that is not known.
    double rate() const noexcept {
        if (now_.at == older_.at) return 0;
        return static_cast<double>(now_.done - older_.done) * 1e9 / static_cast<double>(now_.at - older_.at);
    }

    /// Returns how long the rest takes at that rate; no_timeout if that is not known.
    std::chrono::nanoseconds left() const noexcept {
        if (total_ == 0) return no_timeout;
        if (now_.done >= total_) return {};
        double const ns = static_cast<double>(total_ - now_.done) * 1e9 / rate();
        return ns < 9e18 ? std::chrono::nanoseconds(static_cast<std::int64_t>(ns)) : no_timeout;  // or infinite
    }

private:
    struct mark {
        std::uint64_t done = 0, at = 0;
    };
    mark          first_{}, older_{}, newer_{}, now_{};
    std::uint64_t total_  = 0;
    std::uint64_t before_ = 0;  ///< what it took until it was saved, and waited of that: no batch above has to know
    std::array<std::uint64_t, waits_known> waited_{};
    bool                                   said_ = false;
};

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <tenure/store/adaptor.hpp>

namespace tenure {

namespace faults {

/// Makes the call do nothing and return `with`.
struct fails {
    std::error_code with = std::make_error_code(std::errc::io_error);
};

/// Makes the call take longer by `by`. It then does what it should.
struct delays {
    std::chrono::nanoseconds by{};
};

/// Stops the call half-way, as a medium that gives up: the first `to` bytes are read, written or copied, or the
/// first `to` blocks freed or synced, and then the call returns `with`. Without `to`, everything is done and the
/// call still returns `with`, as if a peer died before it answered. Operations that have no half fail and do
/// nothing.
struct shortens {
    std::size_t     to   = std::numeric_limits<std::size_t>::max();
    std::error_code with = std::make_error_code(std::errc::io_error);
};

}  // namespace faults

/// Says what goes wrong, and when: {.on = store_operation::write, .nth = 3, .how = faults::shortens{.to = 100}}.
struct fault {
    store_operation on    = store_operation::any;  ///< the calls that are counted
    std::uint64_t   nth   = 1;                     ///< counted from inject() on: 1 is the next such call
    std::uint64_t   times = 1;                     ///< calls in a row that are struck, from the nth on

    std::variant<faults::fails, faults::delays, faults::shortens> how = faults::fails{};
};

/// An adaptor for tests of code that uses a store. It does what its upstream does, except for injected faults.
/// Faults that fall on one call all strike: delays add up, and of several errors the one injected first is
/// returned. usage() and describe() never fail. async_ operations and those on batches are not passed on. As
/// thread-safe as the upstream. Cost: a lock a call, not held while the upstream is called.
template <backing_store Upstream>
class faulty_store : public detail::passing_store<Upstream, faulty_store<Upstream>> {
    friend detail::passing_store<Upstream, faulty_store>;

public:
    /// Makes an adaptor of `over`, which must not be null.
    explicit faulty_store(std::shared_ptr<Upstream> over) noexcept : faulty_store::passing_store(std::move(over)) {}

    /// Injects a fault, which counts calls from now on. Throws std::invalid_argument if `nth` or `times` is 0.
    void inject(fault f) {
        if (f.nth == 0 || f.times == 0) raise(std::invalid_argument("tenure::fault: nth and times count from 1"));
        std::scoped_lock const guard(lock_);
        pending_.push_back(f);
    }

    /// Removes all faults, and starts all counts at 0.
    void clear() noexcept {
        std::scoped_lock const guard(lock_);
        pending_.clear();
        calls_  = {};
        struck_ = 0;
    }

    /// Returns how often that operation was called, struck or not.
    std::uint64_t calls(store_operation on = store_operation::any) const noexcept {
        std::scoped_lock const guard(lock_);
        return calls_[static_cast<std::size_t>(on)];
    }

    /// Returns how many calls were struck. 0 tells a loop over `nth` that it has come past the last call.
    std::uint64_t struck() const noexcept {
        std::scoped_lock const guard(lock_);
        return struck_;
    }

    std::string describe() const { return "faulty " + detail::name_of(*this->upstream()); }

private:
    struct strike {
        std::error_code            error;  ///< empty: do what was asked
        std::optional<std::size_t> to;     ///< before the error, do so much of it
    };

    /// Counts the call, waits as long as faults delay it, and returns what else they do.
    strike meet(store_operation on) noexcept {
        strike                   all;
        std::chrono::nanoseconds delay{};
        {
            std::scoped_lock const guard(lock_);
            ++calls_[static_cast<std::size_t>(store_operation::any)];
            ++calls_[static_cast<std::size_t>(on)];
            bool met = false;
            for (fault& f : pending_) {
                if (f.on != store_operation::any && f.on != on) continue;
                if (f.nth > 1) {
                    --f.nth;
                    continue;
                }
                --f.times;
                met = true;
                if (auto const* const d = std::get_if<faults::delays>(&f.how)) delay += d->by;
                else if (all.error) continue;
                else if (auto const* const e = std::get_if<faults::fails>(&f.how)) all.error = e->with;
                else if (auto const* const s = std::get_if<faults::shortens>(&f.how)) all = {s->with, s->to};
            }
            struck_ += met;
            std::erase_if(pending_, [](fault const& f) { return f.times == 0; });
        }
        if (delay.count() > 0) std::this_thread::sleep_for(delay);
        return all;
    }

    template <class F>
    auto whole(store_operation on, F call) -> decltype(call()) {
        if (strike const s = meet(on); s.error) return s.error;
        return call();
    }

    /// Does the call up to where a fault stops it: `call(n)` does the first n of `size`. A call that the upstream
    /// refuses as a whole has no first part.
    template <class F>
    result<void> part(store_operation on, std::size_t size, bool has_parts, F call) {
        strike const s = meet(on);
        if (!s.error) return call(size);
        if (!s.to) return s.error;
        if (result<void> const r = call(has_parts ? std::min(*s.to, size) : size); !r) return r;
        return s.error;
    }

    mutable std::mutex            lock_;
    std::vector<fault>            pending_;
    std::array<std::uint64_t, 11> calls_{};
    std::uint64_t                 struck_ = 0;
};

}  // namespace tenure

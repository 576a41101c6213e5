// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <mutex>
#include <new>
#include <utility>

#include <tenure/detail/base/config.hpp>

namespace tenure::detail {

/// Keeps records whose memory is never returned to the system, so that a thread with a pointer to one can always
/// ask whether it still is what it was. A T has a `T* next_free`. Not thread-safe. At its end, spare records go to
/// the process, for the next stock.
template <class T>
class stock {
public:
    stock() = default;
    ~stock() {
        std::scoped_lock const guard(common_.mutex);
        while (T* const t = free_) {
            free_         = t->next_free;
            t->next_free  = common_.spare;
            common_.spare = t;
        }
    }
    stock(stock const&)            = delete;
    stock& operator=(stock const&) = delete;

    /// Returns a record, as it was given back or new; null if memory is full.
    T* take() noexcept {
        if (!free_) refill();
        T* const t = free_;
        if (t) free_ = t->next_free;
        return t;
    }
    void give(T& t) noexcept { t.next_free = std::exchange(free_, &t); }

    /// See fork_list.hpp.
    static void lock_for_fork() noexcept { common_.mutex.lock(); }
    static void unlock_after_fork() noexcept { common_.mutex.unlock(); }

private:
    friend struct use_copies;

    struct chunk {
        T      items[32];
        chunk* next;
    };
    struct common {
        std::mutex mutex;
        T*         spare  = nullptr;
        chunk*     chunks = nullptr;
    };

    void refill() noexcept {
        std::scoped_lock const guard(common_.mutex);
        free_ = std::exchange(common_.spare, nullptr);
        if (free_) return;
        auto* const more = new (std::nothrow) chunk{};
        if (!more) return;
        more->next = std::exchange(common_.chunks, more);
        for (T& t : more->items) give(t);
    }

    TENURE_SHARED static inline constinit common common_{};

    T* free_ = nullptr;
};

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>

#include <tenure/store/adaptor.hpp>

/// A store whose next write waits in the middle until it is let go: as slow a medium as a test needs.
template <tenure::backing_store Upstream>
class gated_store : public tenure::store_adaptor<Upstream> {
public:
    using tenure::store_adaptor<Upstream>::store_adaptor;

    tenure::result<void> write(tenure::block b, std::size_t offset, std::span<std::byte const> in) {
        {
            std::unique_lock guard(lock_);
            if (closed_) {
                waiting_ = true;
                changed_.notify_all();
                changed_.wait(guard, [&] { return !closed_; });
                waiting_ = false;
            }
        }
        return this->upstream()->write(b, offset, in);
    }

    void close_gate() {
        std::scoped_lock const guard(lock_);
        closed_ = true;
    }
    void await_write() {
        std::unique_lock guard(lock_);
        changed_.wait(guard, [&] { return waiting_; });
    }
    void open_gate() {
        std::scoped_lock const guard(lock_);
        closed_ = false;
        changed_.notify_all();
    }

private:
    std::mutex              lock_;
    std::condition_variable changed_;
    bool                    closed_ = false, waiting_ = false;
};

static_assert(tenure::backing_store<gated_store<tenure::any_store>>);

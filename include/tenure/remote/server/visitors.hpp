// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace tenure::detail {

/// Connections that have not said hello yet, which anybody can make: so many in all, and a quarter of them from one
/// place. Thread-safe.
class visitors : public std::enable_shared_from_this<visitors> {
public:
    explicit visitors(std::size_t most) noexcept : most_(most) {}

    /// Until the visitor has said who it is.
    class visit {
    public:
        visit() noexcept = default;
        visit(std::shared_ptr<visitors> at, std::string from) noexcept
            : at_(std::move(at)), from_(std::move(from)) {}
        visit(visit&&) noexcept = default;
        visit& operator=(visit&& other) noexcept {
            visit old(std::move(*this));
            at_   = std::move(other.at_);
            from_ = std::move(other.from_);
            return *this;
        }
        ~visit() {
            if (at_) at_->leave(from_);
        }

        explicit operator bool() const noexcept { return at_ != nullptr; }

    private:
        std::shared_ptr<visitors> at_;
        std::string               from_;
    };

    /// Null: there are too many. Throws bad_alloc.
    visit enter(std::string const& from) {
        std::scoped_lock const guard(lock_);
        if (most_ != 0) {
            auto const at   = by_place_.find(from);
            auto const here = at == by_place_.end() ? 0 : at->second;
            if (all_ >= most_ || here >= (most_ + 3) / 4) return {};
        }
        visit v(shared_from_this(), from);
        ++by_place_[from];
        ++all_;
        return v;
    }

    std::size_t count() const noexcept {
        std::scoped_lock const guard(lock_);
        return all_;
    }

private:
    void leave(std::string const& from) noexcept {
        std::scoped_lock const guard(lock_);
        auto const             at = by_place_.find(from);
        if (at == by_place_.end()) return;
        if (--at->second == 0) by_place_.erase(at);
        --all_;
    }

    std::size_t const                            most_;
    mutable std::mutex                           lock_;
    std::unordered_map<std::string, std::size_t> by_place_;
    std::size_t                                  all_ = 0;
};

}  // namespace tenure::detail

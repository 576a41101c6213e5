// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <system_error>
#include <utility>

#include <tenure/remote/server/tenant.hpp>

namespace tenure::detail {

/// Counts what one session has taken of its tenant's limits: an upper bound before it makes something, and after
/// settle() the true use. Gives everything back at its end. Not thread-safe.
class account {
public:
    explicit account(std::shared_ptr<tenant> of) noexcept : of_(std::move(of)) {}
    ~account() { close(); }
    account(account const&)            = delete;
    account& operator=(account const&) = delete;

    std::shared_ptr<tenant> const& of() const noexcept { return of_; }

    /// Takes `n` of the tenant's limits, or nothing. Errors: those of tenant::take().
    std::error_code take(resource r, std::uint64_t n) noexcept {
        if (auto const why = of_->take(r, n)) return why;
        taken_[index_of(r)] += n;
        return {};
    }

    /// Sets what is taken to `used`: gives the rest back, or adds the excess whatever the limits say.
    void settle(resource r, std::uint64_t used) noexcept {
        std::uint64_t& taken = taken_[index_of(r)];
        if (used > taken) of_->add(r, used - taken);
        else of_->give_back(r, taken - used);
        taken = used;
    }

    /// Forgets `n`, which somebody else gives back.
    void pass_on(resource r, std::uint64_t n) noexcept { taken_[index_of(r)] -= n; }

    /// Gives everything back.
    void close() noexcept {
        for (std::size_t i = 0; i < resources; ++i)
            of_->give_back(static_cast<resource>(i), std::exchange(taken_[i], 0));
    }

private:
    std::shared_ptr<tenant> of_;
    amounts                 taken_{};
};

/// Calls settle() when it is destroyed.
template <class T>
class settling {
public:
    explicit settling(T& of) noexcept : of_(of) {}
    ~settling() { of_.settle(); }
    settling(settling const&)            = delete;
    settling& operator=(settling const&) = delete;

private:
    T& of_;
};

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include <tenure/remote/server/resources.hpp>
#include <tenure/result.hpp>

namespace tenure::detail {

/// Counts the use of each resource, up to a limit. Thread-safe, without locks.
class meter {
public:
    /// `most`: the limits; 0 is no limit.
    explicit meter(amounts const& most) noexcept : most_(most) {}
    meter(meter const&)            = delete;
    meter& operator=(meter const&) = delete;

    /// Takes `n`, or returns false and takes nothing.
    bool take(resource r, std::uint64_t n) noexcept {
        auto&               used  = used_[index_of(r)];
        std::uint64_t const limit = most_[index_of(r)] ? most_[index_of(r)] : ~std::uint64_t{0};
        std::uint64_t       now   = used.load(std::memory_order_relaxed);
        do {
            if (now > limit || n > limit - now) return false;
        } while (!used.compare_exchange_weak(now, now + n, std::memory_order_relaxed));
        return true;
    }

    /// Counts what is there already, whatever the limit says.
    void add(resource r, std::uint64_t n) noexcept { used_[index_of(r)].fetch_add(n, std::memory_order_relaxed); }
    void give_back(resource r, std::uint64_t n) noexcept {
        used_[index_of(r)].fetch_sub(n, std::memory_order_relaxed);
    }

    std::uint64_t most(resource r) const noexcept { return most_[index_of(r)]; }
    std::uint64_t used(resource r) const noexcept { return used_[index_of(r)].load(std::memory_order_relaxed); }
    bool          full(resource r) const noexcept { return most(r) != 0 && used(r) >= most(r); }

    /// Returns all figures as of now, each read by itself.
    amounts used() const noexcept {
        amounts out{};
        for (std::size_t i = 0; i < resources; ++i) out[i] = used_[i].load(std::memory_order_relaxed);
        return out;
    }

private:
    amounts const                                     most_;
    std::array<std::atomic<std::uint64_t>, resources> used_{};
};

/// A holder of a token or of a certificate, or a user of this machine, with its limits. All sessions of a tenant
/// share its limits, and all tenants share the server's. Thread-safe, without locks.
class tenant {
public:
    tenant(std::string who, amounts const& most, std::shared_ptr<meter> all)
        : name(std::move(who)), own_(most), all_(std::move(all)) {}

    /// Takes `n`, or nothing. Errors: which limit refuses it, as limit_error() says.
    std::error_code take(resource r, std::uint64_t n) noexcept {
        if (n == 0) return {};
        if (!own_.take(r, n)) return limit_error(r, false);
        if (all_->take(r, n)) return {};
        own_.give_back(r, n);
        return limit_error(r, true);
    }

    /// Counts what is there already, whatever the limits say.
    void add(resource r, std::uint64_t n) noexcept {
        own_.add(r, n);
        all_->add(r, n);
    }
    void give_back(resource r, std::uint64_t n) noexcept {
        if (n == 0) return;
        own_.give_back(r, n);
        all_->give_back(r, n);
    }

    /// Returns whether nothing more can be taken.
    bool full(resource r) const noexcept { return own_.full(r) || all_->full(r); }

    /// Returns the most that the tenant can ever have; 0: no limit.
    std::uint64_t most(resource r) const noexcept {
        std::uint64_t const mine = own_.most(r), all = all_->most(r);
        return !mine ? all : !all ? mine : std::min(mine, all);
    }

    /// Returns the text that a client is told for an error of take().
    std::string explain(std::error_code why) const {
        if (!is_limit(why)) return {};
        auto const  at     = static_cast<std::size_t>(why.value() - 1) / 2;
        bool const  of_all = why.value() % 2 == 0;
        auto const& from   = of_all ? *all_ : own_;
        return std::string(resource_names[at]) + (of_all ? ": the server may have " : ": one tenant may have ") +
               std::to_string(from.most(static_cast<resource>(at)));
    }

    /// Takes the turn for a long request, which is served although a queue is full. One session of the tenant has
    /// it at a time, so each goes on in the end, whatever others leave in the queue. Returns false if another has
    /// it.
    bool take_turn() noexcept { return !turn_.exchange(true, std::memory_order_relaxed); }
    void end_turn() noexcept { turn_.store(false, std::memory_order_relaxed); }

    meter const&      own() const noexcept { return own_; }
    std::string const name;  ///< for people; no other tenant has it

private:
    meter                  own_;
    std::shared_ptr<meter> all_;
    std::atomic<bool>      turn_{false};
};

/// A share taken of a tenant's resource. Gives it back at its end.
class tenant_claim {
public:
    tenant_claim() noexcept = default;
    /// Takes over `n` from a successful tenant::take().
    tenant_claim(std::shared_ptr<tenant> of, resource r, std::uint64_t n) noexcept
        : of_(std::move(of)), r_(r), n_(n) {}
    tenant_claim(tenant_claim&& other) noexcept : of_(std::move(other.of_)), r_(other.r_), n_(other.n_) {}
    tenant_claim& operator=(tenant_claim&& other) noexcept {
        tenant_claim old(std::move(*this));
        of_ = std::move(other.of_);
        r_  = other.r_;
        n_  = other.n_;
        return *this;
    }
    ~tenant_claim() {
        if (of_) of_->give_back(r_, n_);
    }

    /// Takes `n`, or nothing. Errors: those of tenant::take().
    static result<tenant_claim> take(std::shared_ptr<tenant> const& of, resource r, std::uint64_t n) noexcept {
        if (auto const why = of->take(r, n)) return why;
        return tenant_claim(of, r, n);
    }

    std::uint64_t amount() const noexcept { return of_ ? n_ : 0; }

private:
    std::shared_ptr<tenant> of_;
    resource                r_ = resource::bytes;
    std::uint64_t           n_ = 0;
};

/// A session's right to exist, and to have requests under way. Gives both back at its end.
struct admission {
    std::shared_ptr<tenant> of;
    tenant_claim            session, requests;

    /// Admits a session with a window of `window` requests, or of a half, a quarter ... of that, at least one.
    /// Errors: those of tenant::take().
    static result<admission> to(std::shared_ptr<tenant> of, std::uint32_t window) noexcept {
        auto session = tenant_claim::take(of, resource::sessions, 1);
        if (!session) return session.error();
        for (std::uint32_t n = std::max(window, 1u);; n /= 2) {
            auto requests = tenant_claim::take(of, resource::requests, n);
            if (requests) return admission{std::move(of), std::move(*session), std::move(*requests)};
            if (n == 1) return requests.error();
        }
    }

    std::uint32_t window() const noexcept { return static_cast<std::uint32_t>(requests.amount()); }

    void give_back() noexcept { session = {}, requests = {}; }
};

}  // namespace tenure::detail

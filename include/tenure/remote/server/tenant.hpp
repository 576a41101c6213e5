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

    amounts used() const noexcept {
        amounts out{};
        std::ranges::transform(used_, out.begin(), [](auto const& u) { return u.load(std::memory_order_relaxed); });
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

    /// Takes `n`, or nothing. Errors: those of tenant::take().
    static result<tenant_claim> take(std::shared_ptr<tenant> const& of, resource r, std::uint64_t n) noexcept {
        if (auto const why = of->take(r, n)) return why;
        tenant_claim taken;
        taken.of_ = {of.get(), {of, r, n}};
        return taken;
    }

    std::uint64_t amount() const noexcept { return of_ ? of_.get_deleter().n : 0; }

private:
    struct giver {
        std::shared_ptr<tenant> of;
        resource                r;
        std::uint64_t           n;
        void                    operator()(tenant* t) const noexcept { t->give_back(r, n); }
    };
    std::unique_ptr<tenant, giver> of_;
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

    void close() noexcept {
        for (std::size_t i = 0; i < resources; ++i)
            of_->give_back(static_cast<resource>(i), std::exchange(taken_[i], 0));
    }

private:
    std::shared_ptr<tenant> of_;
    amounts                 taken_{};
};

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

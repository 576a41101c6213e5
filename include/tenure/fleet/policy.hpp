// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <utility>

#include <tenure/fleet/plan.hpp>
#include <tenure/fleet/view.hpp>
#include <tenure/type_name.hpp>

namespace tenure {

/// Looks at a group once in a cycle and proposes copies to be made, dropped or moved. It is called on one thread at
/// a time. One that throws is asked no more.
template <class P>
concept replication_policy = std::copy_constructible<P> && requires(P& p, fleet_view const& view, plan& proposals) {
    p.propose(view, proposals);
};

/// Any policy. Copies share it.
class any_policy {
public:
    template <class P>
        requires(!std::same_as<P, any_policy> && replication_policy<P>)
    any_policy(P p)  // NOLINT(google-explicit-constructor): a list of policies is written as one
        : name_(detail::type_name(detail::identity_of<P>())), policy_(std::make_shared<of<P>>(std::move(p))) {}

    /// Returns the name of the policy's type. A manager has one policy of each.
    std::string const& name() const noexcept { return name_; }

    void propose(fleet_view const& view, plan& proposals) const { policy_->propose(view, proposals); }

private:
    struct base {
        base()                       = default;
        base(base const&)            = delete;
        base& operator=(base const&) = delete;
        virtual ~base()              = default;

        virtual void propose(fleet_view const& view, plan& proposals) = 0;
    };
    template <class P>
    struct of final : base {
        explicit of(P p) : policy(std::move(p)) {}
        void propose(fleet_view const& view, plan& proposals) override { policy.propose(view, proposals); }

        P policy;
    };

    std::string           name_;
    std::shared_ptr<base> policy_;
};

}  // namespace tenure

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// What a registry says that it has, against what the kernel says that the process has, after very many operations
// of all kinds. TENURE_STEPS: how many objects are made; TENURE_SEED: which.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/budget/process_memory.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/tenure.hpp>

#include "accounting.hpp"
#include "random/dice.hpp"

namespace {

using tenure::batch_id;
using tenure::batch_owner;
using tenure::handle;
using tenure::registry;

constexpr std::size_t MiB = 1 << 20;

/// Bytes in memory, as the kernel counts them.
std::size_t truth() { return tenure::detail::memory_in("/proc/self/status"); }

/// Many batches of all sizes, half a GiB in all, in which objects are made and freed, kept and given away.
class crowd {
public:
    explicit crowd(std::uint64_t seed) : random_(seed), cache_(r_, {.name = "cache"}) {}

    /// One operation on one batch. Returns how many objects it made.
    std::size_t step() {
        one& b = all_[random_.below(all_.size())];
        if (!b.batch || random_.below(16) == 0) {
            b.batch.end();
            b = one{batch_owner(r_, {}), {}, (1 + random_.below(14)) * MiB};
        }
        std::size_t const n = 1 + random_.below(600);
        {
            [[maybe_unused]] auto const inside = r_.enter(b.batch);
            for (std::size_t i = 0; i < n && b.bytes < b.most; ++i) {
                std::size_t const bytes = random_.below(64) ? 16 + random_.below(400) : 1 + random_.below(200'000);
                auto const        h     = tenure::make_for_overwrite<std::byte[]>(bytes);
                std::memset(h.get(), 1, bytes);
                b.bytes += bytes;
                if (random_.below(100) == 0) b.some.push_back(h);
            }
        }
        while (b.some.size() > 4) {
            handle<std::byte[]> const h = b.some.back();
            b.some.pop_back();
            switch (random_.below(8)) {
            case 0: give(h); break;
            case 1: b.some.clear(); break;
            default: r_.free(h);
            }
        }
        return n;
    }

    /// What the registry says that it has from the system.
    std::size_t ledger() const {
        auto const of = r_.snapshot().memory;
        return of.held + of.cached + of.tables;
    }
    /// What its batches say that they use.
    std::size_t in_use() const { return r_.usage(r_.root(), tenure::recursive).bytes; }

private:
    struct one {
        batch_owner                      batch{};
        std::vector<handle<std::byte[]>> some{};
        std::size_t                      most  = 0;
        std::size_t                      bytes = 0;
    };

    void give(handle<std::byte[]> const& h) {
        r_.transfer_ownership(h, cache_);
        given_.push_back(h);
        if (given_.size() < 2'000) return;
        for (handle<std::byte[]> const& old : given_) r_.free(old);
        given_.clear();
    }

    registry                         r_;
    dice                             random_;
    batch_owner                      cache_;
    std::vector<handle<std::byte[]>> given_;
    std::array<one, 64>              all_{};
};

}  // namespace

TEST_CASE("the ledger is what the process has, within two parts in a hundred") {
    if (TENURE_SANITIZED) {
        MESSAGE("skipped: a sanitizer has memory of its own");
        return;
    }
    std::uint64_t const steps  = from_environment("TENURE_STEPS", 12'000'000);
    std::size_t const   before = truth();
    crowd               all(from_environment("TENURE_SEED", 1));
    double              worst = 1;
    std::uint64_t       made  = 0;
    for (int look = 1; look <= 16; ++look) {
        while (made < steps / 16 * static_cast<std::uint64_t>(look)) made += all.step();
        auto const has  = static_cast<double>(truth() - before);
        auto const says = static_cast<double>(all.ledger());
        if (look < 10) continue;  // batches have memory ahead that nobody has touched yet
        CAPTURE(made);
        CAPTURE(has / MiB);
        CAPTURE(says / MiB);
        CHECK(has >= 100. * MiB);
        CHECK(says / has == doctest::Approx(1).epsilon(0.02));
        CHECK(all.in_use() <= all.ledger());
        worst = std::max({worst, says / has, has / says});
    }
    MESSAGE(made << " objects; the two were at most " << (worst - 1) * 100 << " % apart");
}

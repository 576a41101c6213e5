// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Random programs on one thread against a plain model (random/model.hpp). TENURE_STEPS: how many steps;
// TENURE_SEED: which programs. What fails is shrunk and told step by step.

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <tenure/detail/base/config.hpp>
#include <tenure/tenure.hpp>

#include "random/operations.hpp"
#include "random/shrink.hpp"

#if TENURE_ASAN
#include <sanitizer/lsan_interface.h>
#endif

namespace {

/// Programs of all lengths; most are short, most steps are in long ones.
struct plan {
    std::uint64_t seed;
    program       steps;
};
plan plan_of(std::uint64_t seed, std::uint64_t number) {
    plan p{dice::mix(seed ^ dice::mix(number)), {}};
    dice d(p.seed);
    p.steps = random_program(d, 10 + d.below(std::uint64_t{10} << d.below(10)));
    return p;
}

/// Every fourth program runs in the global registry, which is never new; and the others in one that lets memory go
/// at once, or never.
void run(plan const& p, bool talkative) {
    static tenure::registry  other;
    tenure::registry_options options;
    options.decay       = p.seed % 4 == 1 ? std::chrono::seconds(0) : std::chrono::seconds(1000);
    auto* const own     = p.seed % 4 == 0 ? nullptr : new tenure::registry(options);
    auto* const running = new machine(own ? *own : tenure::registry::global(), other, talkative);
    running->run(p.steps);
    delete running;  // not so when it failed: then it is in no state to be taken down
    delete own;
    for (tenure::any_store& s : kinds::stores) {
        if (s && own && s.usage().blocks != 0) throw mismatch("a store holds what its registry left there");
        s = {};
    }
}

using history = std::vector<plan>;
void run(history const& h, bool talkative) {
    for (plan const& p : h) run(p, talkative);
}

/// The last program, alone if it fails alone; else after those before it that it takes.
history shrink(history const& all, std::string const& why) {
    auto const fails = [&](history const& h) {  // in the same way, for there may be others
        std::string const other = apart::run(apart::noise::muted, TENURE_ASAN ? 15 : 2, [&] { run(h, false); });
        return !other.empty() && other.substr(0, 20) == why.substr(0, 20);
    };
    history h{all.back()};
    if (!fails(h)) h = apart::shrink(all, std::chrono::seconds(60), fails);
    for (plan& p : h) {
        p.steps = apart::shrink(p.steps, std::chrono::seconds(180 / h.size()), [&](program const& less) {
            program const whole = std::exchange(p.steps, less);
            bool const    still = fails(h);
            p.steps             = whole;
            return still;
        });
    }
    return h;
}

/// What the child tells its parent while it lives.
struct progress {
    std::uint64_t number = 0, steps = 0;
};

}  // namespace

TEST_CASE("random programs do what the model does") {
    std::uint64_t const seed  = from_environment("TENURE_SEED", 1);
    std::uint64_t const steps = from_environment("TENURE_STEPS", TENURE_SANITIZED ? 25'000 : 150'000);

    void* const shared =
        ::mmap(nullptr, sizeof(progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(shared != MAP_FAILED);
    auto& at = *::new (shared) progress;

    std::string const why = apart::run(apart::noise::heard, 0, [&] {
        while (at.steps < steps) {
            plan const p = plan_of(seed, at.number);
            ::alarm(100);  // no program takes as long, unless it never ends
            run(p, false);
            at.steps += p.steps.size();
            ++at.number;
        }
#if TENURE_ASAN
        if (__lsan_do_recoverable_leak_check()) throw mismatch("memory leaked");
#endif
    });
    MESSAGE(at.steps << " steps in " << at.number << " programs, TENURE_SEED=" << seed);
    if (!why.empty()) {
        history all;
        for (std::uint64_t i = 0; i <= at.number; ++i) all.push_back(plan_of(seed, i));
        history const     least = shrink(all, why);
        std::string const again = apart::run(apart::noise::heard, 20, [&] { run(least, true); });
        std::size_t       left  = 0;
        for (plan const& p : least) left += p.steps.size();
        FAIL_CHECK("program " << at.number << " of TENURE_SEED=" << seed << ": " << why << "\nshrunk to " << left
                              << " steps in " << least.size() << " programs, told above: " << again);
    }
    ::munmap(shared, sizeof(progress));
}

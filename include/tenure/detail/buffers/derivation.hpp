// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <tenure/detail/buffers/buffer_moves.hpp>
#include <tenure/detail/buffers/derivation_runs.hpp>
#include <tenure/detail/buffers/derive.hpp>
#include <tenure/detail/sharing/owners.hpp>

namespace tenure::detail {

/// Computes a buffer from others, as long as the buffer lives. It has a share in each input, so these are there
/// when needed, whatever becomes of the batches that had them.
struct derivation final : derivation_front {
    struct input {
        raw_handle    buffer;
        std::uint64_t common  = 0;        ///< in which this derivation has its share
        derivation*   made_by = nullptr;  ///< the input's own derivation, or null
    };

    derivation(std::size_t n, std::unique_ptr<derivation_maker> m) noexcept : alignment(n), maker(std::move(m)) {}

    void hold() noexcept { references.fetch_add(1, std::memory_order_relaxed); }
    void drop() noexcept override {
        if (is_last()) release(this);
    }
    void count_use(bool here) noexcept override {
        if (std::exchange(counted, here) == here) return;
        for (input const& i : inputs)
            if (i.made_by) i.made_by->used_by.fetch_add(here ? 1 : ~std::uint32_t{0}, std::memory_order_relaxed);
    }

    std::size_t const          alignment;
    std::vector<input>         inputs;
    std::atomic<std::uint32_t> references{
        1};  ///< held by its buffer, by derivations with that as an input, and by calls that use it
    std::atomic<std::uint32_t> used_by{0};       ///< buffers that have their bytes and were made from its buffer
    bool                       counted = false;  ///< in `used_by` of its inputs; under its buffer's lock

    std::shared_ptr<derivation_run>         running;  ///< the current run or null; under running_derivations.mutex
    std::unique_ptr<derivation_maker> const maker;

private:
    bool is_last() noexcept { return references.fetch_sub(1, std::memory_order_acq_rel) == 1; }

    /// No recursion along a chain of derivations: an input that goes with its share does not take its derivation
    /// along, for that is still held; and those that nobody holds any more wait in a list.
    static void release(derivation* last) noexcept {
        while (last) {
            derivation* const d = std::exchange(last, last->next_);
            for (input const& i : d->inputs)
                if (i.common) drop_member(i.common);
            for (input const& i : d->inputs) {
                if (!i.made_by) continue;
                if (d->counted) --i.made_by->used_by;
                if (i.made_by->is_last()) i.made_by->next_ = std::exchange(last, i.made_by);
            }
            delete d;
        }
    }

    derivation* next_ = nullptr;
};

/// Keeps a derivation alive for the time of a call.
class derivation_hold {
public:
    derivation_hold() noexcept = default;
    explicit derivation_hold(derivation* r) noexcept : derivation_(r) {
        if (r) r->hold();
    }
    /// The reference that a new one begins with.
    explicit derivation_hold(derivation& fresh) noexcept : derivation_(&fresh) {}
    derivation_hold(derivation_hold&& other) noexcept : derivation_(std::exchange(other.derivation_, nullptr)) {}
    derivation_hold& operator=(derivation_hold&& other) noexcept {
        std::swap(derivation_, other.derivation_);
        return *this;
    }
    ~derivation_hold() {
        if (derivation_) derivation_->drop();
    }

    explicit    operator bool() const noexcept { return derivation_; }
    derivation* operator->() const noexcept { return derivation_; }
    derivation& operator*() const noexcept { return *derivation_; }
    derivation* release() noexcept { return std::exchange(derivation_, nullptr); }

private:
    derivation* derivation_ = nullptr;
};

/// Calls f(record) under the lock of a buffer of any batch, which is held and in memory meanwhile. Errors:
/// stale_handle, not_owner.
template <class F>
failure with_record(registry_core& r, raw_handle h, F f) {
    return with_owner(r, h, nullptr, [&](batch_record& owner, extent const& x) -> failure {
        object_lock const    guard(x);
        buffer_record* const b = buffer_of(h, x, owner);
        if (!b) return {errc::stale_handle};
        f(*b);
        return {};
    });
}

/// A buffer at one moment: whether it has its bytes, and its derivation.
struct buffer_view {
    failure         why;
    bool            here = false;
    derivation_hold made_by;
};
inline buffer_view look_at(registry_core& r, raw_handle h) {
    buffer_view v;
    v.why = with_record(r, h, [&](buffer_record const& b) {
        v.here    = !b.evicted();
        v.made_by = derivation_hold(static_cast<derivation*>(b.made_by()));
    });
    return v;
}

/// Gives `r` a share in the buffer, as one more input. Throws stale_handle, not_owner, and what share() throws.
inline void add_input(registry_core& core, derivation& r, raw_handle h) {
    r.inputs.push_back({h});
    derivation::input& i = r.inputs.back();
    other_owner        owner;
    share_result const done = share_among(core, h, owner);
    if (done.why) throw_failure(done.why, "take an input of a derived buffer ");
    i.common  = owner.common;
    i.made_by = look_at(core, h).made_by.release();
}

}  // namespace tenure::detail

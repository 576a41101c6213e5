// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/blocks/block_ledger.hpp>
#include <tenure/device/scheduler/concept.hpp>
#include <tenure/raise.hpp>
#include <tenure/store/adaptor.hpp>

namespace tenure {

namespace detail {

/// Maps an adaptor's batches to numbers upstream, where other adaptors may have blocks of the same batches: the
/// end of one must not free another's blocks. The numbers have the highest bit set, so they differ from all
/// batches' own numbers. Thread-safe.
class batch_numbers {
public:
    /// Returns the number of a batch, which is open from now on; 0 for 0. Returns nullopt if memory is full.
    std::optional<std::uint64_t> open(std::uint64_t batch) noexcept {
        if (batch == 0) return batch;
        std::scoped_lock const guard(mutex_);
        std::uint64_t*         number = nullptr;
        if (!memory_lasts([&] { number = &upstream_[batch]; })) return std::nullopt;
        if (*number == 0) *number = first | ++last;
        return *number;
    }

    /// Returns the number of a batch; nullopt if it was never opened, or closed since.
    std::optional<std::uint64_t> find(std::uint64_t batch) noexcept {
        std::scoped_lock const guard(mutex_);
        auto const             at = upstream_.find(batch);
        return at == upstream_.end() ? std::nullopt : std::optional(at->second);
    }

    void close(std::uint64_t batch) noexcept {
        std::scoped_lock const guard(mutex_);
        upstream_.erase(batch);
    }

private:
    static constexpr std::uint64_t                                   first = std::uint64_t{1} << 63;
    TENURE_SHARED static inline constinit std::atomic<std::uint64_t> last{0};

    std::mutex                                       mutex_;
    std::unordered_map<std::uint64_t, std::uint64_t> upstream_;
};

/// Stands for batch_numbers in stores that know no batches.
struct no_numbers {};

}  // namespace detail

/// Counts on a job's meter what the job has in the store of its device. The job is over when this store is gone. A
/// device_pool makes these stores.
///
/// Blocks, usage() and capabilities except `asynchronous` are the upstream's. If it knows blocks by batch, the
/// numbers are this store's own. Blocks of a durable upstream that are found here are not the job's. Thread-safe.
/// Beyond the upstream's cost, allocating takes two short locks, deallocating one a block, and other calls and the
/// end of the job nothing.
template <backing_store Upstream>
class placed_store : public store_adaptor<Upstream> {
    static constexpr store_traits with_batches(store_traits t) noexcept {
        t.batched = Upstream::traits.batched;
        return t;
    }

public:
    using store_adaptor<Upstream>::upstream;

    static constexpr store_traits traits = with_batches(store_adaptor<Upstream>::traits);

    /// Counts blocks of `over` on `meter`; neither may be null. `kind` is for describe().
    placed_store(std::shared_ptr<Upstream> over, std::shared_ptr<job_meter> meter, std::string kind) noexcept
        : store_adaptor<Upstream>(std::move(over)), meter_(std::move(meter)), kind_(std::move(kind)) {}
    ~placed_store() { meter_->end(); }

    result<block> allocate(std::size_t bytes, std::size_t alignment) {
        return counted([&] { return upstream()->allocate(bytes, alignment); });
    }
    result<block> allocate_in(std::uint64_t batch, std::size_t bytes, std::size_t alignment)
        requires(traits.batched)
    {
        std::optional<std::uint64_t> const number = numbers_.open(batch);
        if (!number) return make_error_code(errc::memory_full);
        return counted([&] { return upstream()->allocate_in(*number, bytes, alignment); });
    }

    result<void> deallocate(std::span<block const> many) noexcept {
        return uncounted(many, [&] { return upstream()->deallocate(many); });
    }
    result<void> deallocate_batch(std::uint64_t batch, std::span<block const> many) noexcept
        requires(traits.batched)
    {
        std::optional<std::uint64_t> const number = numbers_.find(batch);
        if (!number) return many.empty() ? result<void>() : deallocate(many);
        result<void> const outcome = uncounted(many, [&] { return upstream()->deallocate_batch(*number, many); });
        if (outcome) numbers_.close(batch);
        return outcome;
    }

    result<void> transfer(std::span<block const> many, std::uint64_t batch)
        requires(traits.batched)
    {
        std::optional<std::uint64_t> const number = numbers_.open(batch);
        if (!number) return make_error_code(errc::memory_full);
        return upstream()->transfer(many, *number);
    }

    job_meter const& meter() const noexcept { return *meter_; }
    std::string      describe() const { return "job " + kind_ + " in " + detail::name_of(*upstream()); }

private:
    template <class F>
    result<block> counted(F allocated) {
        detail::block_ledger::room place;
        if (!place) return make_error_code(errc::memory_full);
        result<block> const b = allocated();
        if (b) {
            ledger_.enter(std::move(place), *b);
            meter_->add(b->bytes);
        }
        return b;
    }

    template <class F>
    result<void> uncounted(std::span<block const> many, F freed_upstream) noexcept {
        std::size_t named = 0, freed = 0;
        for (block const& b : many) named += std::min(b.bytes, ~named);
        meter_->begin_return(named);
        result<void> const outcome = freed_upstream();
        ledger_.settle(*upstream(), many, outcome, [&](std::size_t n) { freed += n; });
        meter_->end_return(named, freed);
        return outcome;
    }

    using numbers = std::conditional_t<traits.batched, detail::batch_numbers, detail::no_numbers>;

    std::shared_ptr<job_meter>    meter_;
    std::string const             kind_;
    detail::block_ledger          ledger_;
    [[no_unique_address]] numbers numbers_;
};

static_assert(backing_store<placed_store<any_store>>);

}  // namespace tenure

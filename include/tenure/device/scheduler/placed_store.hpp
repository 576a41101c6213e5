// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <tenure/detail/block_ledger.hpp>
#include <tenure/device/scheduler/job_meter.hpp>
#include <tenure/store/adaptor.hpp>

namespace tenure {

/// What one job has in the store of its device: what is allocated here is counted on the job's meter, and the job
/// is over when this store is gone. A device_pool makes them.
///
/// The blocks are the upstream's, and so are its capabilities and usage(). Blocks of a durable upstream that are
/// found here are not the job's. Thread-safe. A call costs two short locks more than the upstream's own to
/// allocate, one a block to deallocate, else nothing; the end of the job costs nothing.
template <backing_store Upstream>
class placed_store : public store_adaptor<Upstream> {
public:
    using store_adaptor<Upstream>::traits;
    using store_adaptor<Upstream>::upstream;

    /// Neither pointer may be null. `kind` is for describe().
    placed_store(std::shared_ptr<Upstream> over, std::shared_ptr<job_meter> meter, std::string kind) noexcept
        : store_adaptor<Upstream>(std::move(over)), meter_(std::move(meter)), kind_(std::move(kind)) {}
    ~placed_store() { meter_->end(); }

    result<block> allocate(std::size_t bytes, std::size_t alignment) {
        detail::block_ledger::room place;
        if (!place) return make_error_code(errc::memory_full);
        result<block> const b = upstream()->allocate(bytes, alignment);
        if (b) {
            ledger_.enter(std::move(place), *b);
            meter_->add(bytes);
        }
        return b;
    }

    result<void> deallocate(std::span<block const> many) noexcept {
        std::size_t named = 0, freed = 0;
        for (block const& b : many) named += std::min(b.bytes, ~named);
        meter_->begin_return(named);
        result<void> const outcome = upstream()->deallocate(many);
        ledger_.settle(*upstream(), many, outcome, [&](std::size_t n) { freed += n; });
        meter_->end_return(named, freed);
        return outcome;
    }

    job_meter const& meter() const noexcept { return *meter_; }
    std::string      describe() const { return "job " + kind_ + " in " + detail::name_of(*upstream()); }

private:
    std::shared_ptr<job_meter> meter_;
    std::string const          kind_;
    detail::block_ledger       ledger_;
};

static_assert(backing_store<placed_store<any_store>>);

}  // namespace tenure

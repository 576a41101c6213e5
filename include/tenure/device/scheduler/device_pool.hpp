// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <tenure/device/scheduler/concept.hpp>
#include <tenure/device/scheduler/placed_store.hpp>
#include <tenure/store/any_store.hpp>

namespace tenure {

namespace detail {

template <class S>
concept tells_figures = requires(S& s) {
    { s.figures().to_text() } -> std::convertible_to<std::string>;
};

}  // namespace detail

/// A scheduler and a store for each of its devices. place() returns a store to make a batch with. The buffers of
/// this batch and of those below it go where the scheduler says, and stay together. When the last of these batches
/// and objects is gone, the job is over, and the scheduler learns the most memory that the job had.
///
///     tenure::batch_scope job{{.name = "job", .store = pool.place({.kind = "train", .bytes = 3 << 30})}};
///
/// A job's batches can do with the store what the device's store can: copy, map. If it is addressable, their
/// objects live there too, and the address space for them counts, 64 MiB at a time. Copies between jobs of one
/// device pass through this process. Thread-safe; no lock is held while the scheduler or a store is called.
template <device_scheduler Scheduler>
class device_pool {
public:
    /// Makes a pool with these stores for devices 0, 1, ... None of the stores may be null.
    template <backing_store... Stores>
    explicit device_pool(std::shared_ptr<Scheduler> scheduler, std::shared_ptr<Stores>... stores)
        : scheduler_(std::move(scheduler)) {
        std::uint32_t number = 0;
        (set_store({number++}, std::move(stores)), ...);
    }

    /// Sets the store of a device, which may be host_memory, for jobs from now on. Throws std::bad_alloc.
    template <backing_store Store>
    void set_store(device_id device, std::shared_ptr<Store> store) {
        auto make = [store = std::move(store)](std::shared_ptr<job_meter> meter, std::string_view kind) {
            return any_store(std::make_shared<placed_store<Store>>(store, std::move(meter), std::string(kind)));
        };
        std::scoped_lock const guard(mutex_);
        stores_.insert_or_assign(device, std::move(make));
    }

    /// Places a job and returns a store for it. Ignores the meter of `r`: the pool has its own. Throws store_full
    /// if the job fits nowhere now, device_unavailable if the scheduler picks a device that has no store here,
    /// std::bad_alloc, and what the scheduler throws.
    any_store place(job_request r) {
        std::optional<device_id> picked;
        result<any_store> const  placed = try_place(r, picked);
        if (!placed) raise(error(placed.error(), explain(r, picked)));
        return *placed;
    }

    /// Places a job as place() does, but returns store_full and device_unavailable instead of throwing them.
    /// Throws std::bad_alloc, and what the scheduler throws.
    result<any_store> try_place(job_request r) {
        std::optional<device_id> picked;
        return try_place(r, picked);
    }

    std::shared_ptr<Scheduler> const& scheduler() const noexcept { return scheduler_; }

private:
    /// Makes the store of a job, over the store of one device.
    using maker = std::function<any_store(std::shared_ptr<job_meter>, std::string_view kind)>;

    struct ends_job {
        void operator()(job_meter* m) const noexcept { m->end(); }
    };

    result<any_store> try_place(job_request& r, std::optional<device_id>& picked) {
        auto const                           meter = std::make_shared<job_meter>();
        std::unique_ptr<job_meter, ends_job> unplaced(meter.get());
        r.meter = meter;
        picked  = scheduler_->pick(r);
        if (!picked) return make_error_code(errc::store_full);
        maker const make = find(*picked);
        if (!make) return make_error_code(errc::device_unavailable);
        any_store placed = make(meter, r.kind);
        unplaced.release();  // the store ends it
        return placed;
    }

    maker find(device_id d) {
        std::scoped_lock const guard(mutex_);
        auto const             at = stores_.find(d);
        return at == stores_.end() ? nullptr : at->second;
    }

    std::string explain(job_request const& r, std::optional<device_id> picked) {
        std::string what = "place a job of kind \"" + std::string(r.kind) + "\"";
        if (r.bytes) what += " that declares " + std::to_string(r.bytes) + " bytes";
        if (picked) return what + " on " + to_string(*picked) + ", which has no store here: set_store()";
        what += ": no device is fit for it now; end a batch, wait, or declare less";
        if constexpr (detail::tells_figures<Scheduler>) what += "\n" + scheduler_->figures().to_text();
        return what;
    }

    std::shared_ptr<Scheduler> scheduler_;
    std::mutex                 mutex_;  ///< guards stores_
    std::map<device_id, maker> stores_;
};

}  // namespace tenure

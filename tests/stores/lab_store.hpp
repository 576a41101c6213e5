// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include <tenure/store/any_store.hpp>
#include <tenure/tenure.hpp>
#include <tenure/testing/faulty_store.hpp>

#include "plain_store.hpp"

/// A plain store with a name, so that messages and snapshots can be told apart.
template <tenure::store_traits Traits = tenure::store_traits{}>
class named_store : public plain_store<Traits> {
public:
    template <class... Args>
    explicit named_store(std::string name, Args&&... args)
        : plain_store<Traits>(std::forward<Args>(args)...), name_(std::move(name)) {}

    std::string describe() const { return name_; }

    /// Whether `p` is in one of its live blocks.
    bool holds(void const* p) const {
        std::scoped_lock const guard(this->lock_);
        auto const* const      at = static_cast<std::byte const*>(p);
        for (auto const& [id, x] : this->live_)
            if (x.memory() <= at && at < x.memory() + x.bytes) return true;
        return false;
    }

private:
    std::string name_;
};

/// One that counts calls and fails on demand: what most tests of buffers use.
template <tenure::store_traits Traits = tenure::store_traits{}>
using lab_store = tenure::faulty_store<named_store<Traits>>;

template <tenure::store_traits Traits = tenure::store_traits{}, class... Args>
std::shared_ptr<lab_store<Traits>> make_lab(std::string name, Args&&... args) {
    return std::make_shared<lab_store<Traits>>(
        std::make_shared<named_store<Traits>>(std::move(name), std::forward<Args>(args)...));
}

static_assert(tenure::backing_store<lab_store<>>);
static_assert(tenure::backing_store<lab_store<{.addressable = true, .durable = true, .copyable = true}>>);

/// Rule 10 for buffers, in a registry at rest: what is wrong, or nothing. A store holds what batches have there,
/// the slabs, what it could not free yet, and what is `kept` in it by name.
inline std::string stores_error(tenure::registry const& r, tenure::any_store const& store, std::size_t kept = 0) {
    tenure::snapshot const s     = r.snapshot();
    std::size_t            bytes = 0, buffers = 0;
    for (tenure::batch_info const& b : s.batches) {
        std::size_t bytes_here = 0, buffers_here = 0;
        for (tenure::store_info const& in : b.stores) {
            bytes_here += in.bytes;
            buffers_here += in.buffers;
            if (in.name == store.describe()) bytes += in.bytes, buffers += in.buffers;
        }
        if (bytes_here != b.usage.buffer_bytes || buffers_here != b.usage.buffers)
            return "a batch has other buffers by store than in all\n" + s.to_text();
    }
    tenure::store_info all;
    for (tenure::store_info const& in : s.stores)
        if (in.name == store.describe()) all = in;
    if (all.bytes != bytes || all.buffers != buffers)
        return "the registry has other buffers in a store than its batches\n" + s.to_text();
    std::size_t const expected = bytes + all.slabs + all.unfreed_bytes + kept;
    if (store.usage().bytes != expected)
        return "the store holds " + std::to_string(store.usage().bytes) + " bytes and not " +
               std::to_string(expected) + "\n" + s.to_text();
    return {};
}

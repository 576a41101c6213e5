// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tenure/detail/base/fork_list.hpp>
#include <tenure/detail/batch/finalizer.hpp>
#include <tenure/detail/batch/lane.hpp>
#include <tenure/detail/batch/object_recorder.hpp>
#include <tenure/detail/batch/process.hpp>
#include <tenure/detail/listing/call_stacks.hpp>
#include <tenure/detail/objects/tracking.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// What is known of an object besides what a batch knows.
struct object_record {
    raw_handle           handle{};  ///< in the slab
    void*                address    = nullptr;
    std::size_t          bytes      = 0;
    type_identity const* type       = nullptr;
    bool                 is_adopted = false;    ///< and `type` that of a pointer to it
    call_stack const*    made_at    = nullptr;  ///< or null
    std::string          name{};
    std::uint64_t        serial = 0;  ///< in the order in which they were recorded; 0: it was not
};

/// The objects that a registry has recorded, or of which one has a name. Thread-safe; no lock of the core is taken
/// under its own.
///
/// Nobody says when an object dies: so when there are twice as many as lived at the last look, all are looked at.
class object_records final : public object_recorder {
public:
    ~object_records() override { record(false); }

    /// Returns those of a registry, which it has from the first call on. Throws std::bad_alloc.
    static object_records& of(registry_core& r) {
        if (object_recorder* const there = r.recorder.load(std::memory_order_acquire))
            return static_cast<object_records&>(*there);
        owned_ptr<object_records> made(new object_records);
        object_recorder*          there = nullptr;
        if (!r.recorder.compare_exchange_strong(there, made.get(), std::memory_order_acq_rel))
            return static_cast<object_records&>(*there);
        return *made.release();
    }

    void record(bool on) noexcept {
        if (records.exchange(on, std::memory_order_relaxed) == on) return;
        recording_registries.fetch_add(on ? 1 : std::size_t(-1), std::memory_order_relaxed);
    }

    void note(object_to_be const& o, void const* caller) noexcept override {
        if (o.what.size == 0 || o.what.drop) return;
        static_cast<void>(memory_lasts([&] {
            prune_if_many();
            call_stack             stack = stack_from(caller);
            std::scoped_lock const guard(mutex_);
            object_record&         r = put(o, const_cast<void*>(o.handle.pointer));
            r.serial                 = ++last_serial_;
            r.made_at                = &stacks_.keep(std::move(stack));
        }));
    }

    void forget(std::uintptr_t begin) noexcept override {
        std::scoped_lock const guard(mutex_);
        known_.erase(begin);
    }

    /// Names a live object, whether it was recorded or not. Throws std::bad_alloc.
    void name(object_to_be const& o, void* address, std::string_view text) {
        prune_if_many();
        std::string            copy(text);
        std::scoped_lock const guard(mutex_);
        auto const             found = known_.find(o.begin);
        bool const             knows =
            found != known_.end() && generation_of(found->second.handle.word) == generation_of(o.handle.word);
        (knows ? found->second : put(o, address)).name = std::move(copy);
    }

    /// Returns those for which is_wanted(handle), by where their bytes begin. Throws std::bad_alloc.
    template <class Pred>
    std::unordered_map<std::uintptr_t, object_record> those(Pred is_wanted) const {
        std::vector<known_handle> all;
        {
            std::scoped_lock const guard(mutex_);
            all = handles();
        }
        std::unordered_map<std::uintptr_t, object_record> out;
        std::erase_if(all, [&](known_handle const& k) { return !is_wanted(k.handle); });
        std::scoped_lock const guard(mutex_);
        for (known_handle const& k : all)
            if (object_record const* const r = find(k)) out.emplace(k.begin, *r);
        return out;
    }

    std::size_t size() const {
        std::scoped_lock const guard(mutex_);
        return known_.size();
    }

private:
    /// The lock is held. Throws std::bad_alloc.
    object_record& put(object_to_be const& o, void* address) {
        object_record& r = known_[o.begin];
        r                = {.handle = o.handle, .address = address, .bytes = o.bytes, .type = o.what.type};
        return r;
    }

    struct known_handle {
        std::uintptr_t begin;
        raw_handle     handle;
    };

    /// The lock is held. Throws std::bad_alloc.
    std::vector<known_handle> handles() const {
        std::vector<known_handle> out;
        out.reserve(known_.size());
        for (auto const& [begin, r] : known_) out.push_back({begin, r.handle});
        return out;
    }

    /// Returns the record of an object, unless another one is there now. The lock is held.
    object_record const* find(known_handle const& k) const noexcept {
        auto const found = known_.find(k.begin);
        return found != known_.end() && found->second.handle.word == k.handle.word ? &found->second : nullptr;
    }

    /// Throws std::bad_alloc.
    void prune_if_many() {
        std::vector<known_handle> all;
        {
            std::scoped_lock const guard(mutex_);
            if (known_.size() < many_) return;
            all   = handles();
            many_ = ~std::size_t{0};  // others need not
        }
        std::erase_if(all, [](known_handle const& k) {
            read_section const here;
            return is_alive(k.handle);
        });
        std::scoped_lock const guard(mutex_);
        for (known_handle const& dead : all)
            if (find(dead)) known_.erase(dead.begin);
        many_ = std::max(least, 2 * known_.size());
    }

    static constexpr std::size_t least = 1024;

    /// In a forked child, where the thread that was looking at all is not.
    void look_again() noexcept { many_ = least; }

    mutable fork_mutex mutex_{this, [](void* self) noexcept { static_cast<object_records*>(self)->look_again(); }};
    std::unordered_map<std::uintptr_t, object_record> known_;
    call_stacks                                       stacks_;
    std::uint64_t                                     last_serial_ = 0;
    std::size_t                                       many_        = least;
};

}  // namespace tenure::detail

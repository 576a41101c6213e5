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
    raw_handle           handle{};     ///< in the slab
    std::uintptr_t       begin   = 0;  ///< of its bytes there
    void*                address = nullptr;
    std::size_t          bytes   = 0;
    type_identity const* type    = nullptr;
    lane const*          from    = nullptr;  ///< as object_to_be's
    call_stack const*    made_at = nullptr;  ///< or null
    std::string          name{};
    std::uint64_t        serial = 0;  ///< in the order in which they came

    /// Whether its make has taken the memory.
    bool is_made() const noexcept {
        return !from || address_in(from->cursor.load(std::memory_order_acquire)) != begin;
    }
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
            r.from                   = o.from;
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

    /// Returns all, some of which are dead, by where their bytes begin. Throws std::bad_alloc.
    std::unordered_map<std::uintptr_t, object_record> all() const {
        std::scoped_lock const guard(mutex_);
        return known_;
    }

private:
    /// The lock is held. Throws std::bad_alloc.
    object_record& put(object_to_be const& o, void* address) {
        object_record& r = known_[o.begin];
        r                = {.handle  = o.handle,
                            .begin   = o.begin,
                            .address = address,
                            .bytes   = o.bytes,
                            .type    = o.what.type,
                            .serial  = ++last_serial_};
        return r;
    }

    /// Throws std::bad_alloc.
    void prune_if_many() {
        std::vector<std::pair<std::uintptr_t, raw_handle>> seen;
        {
            std::scoped_lock const guard(mutex_);
            if (known_.size() < many_) return;
            seen.reserve(known_.size());
            for (auto const& [begin, r] : known_) seen.emplace_back(begin, r.handle);
            many_ = ~std::size_t{0};  // others need not
        }
        std::erase_if(seen, [](auto const& s) {
            read_section const here;
            return is_alive(s.second);
        });
        std::scoped_lock const guard(mutex_);
        for (auto const& [begin, dead] : seen) {
            auto const found = known_.find(begin);
            if (found != known_.end() && found->second.handle.word == dead.word) known_.erase(found);
        }
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

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/mman.h>

#include <tenure/store/concept.hpp>

/// What a plain_store keeps outlives it here, as on a disk.
struct plain_disk {
    std::map<std::string, std::vector<std::byte>, std::less<>> files;
};

/// The contract of store/concept.hpp in the plainest way: one lock around everything. For what the suite must
/// accept; and, with one thing made wrong, for what it must not: broken_stores.hpp puts its mistakes in the virtual
/// functions, or in front of the public ones.
template <tenure::store_traits Traits = tenure::store_traits{}>
class plain_store {
public:
    static constexpr tenure::store_traits traits = Traits;

    /// `capacity` 0: what the machine has.
    explicit plain_store(std::size_t capacity = 0) : capacity_(capacity) {}

    explicit plain_store(std::shared_ptr<plain_disk> disk) : disk_(std::move(disk)) {
        for (auto const& [name, file] : disk_->files) {
            auto const b = allocate(file.size(), 1);
            std::ranges::copy(file, live_.at(b->id).memory());
            live_.at(b->id).name = name;
        }
    }

    plain_store(plain_store const&)            = delete;
    plain_store& operator=(plain_store const&) = delete;
    virtual ~plain_store() { write_kept(); }

    tenure::result<tenure::block> allocate(std::size_t bytes, std::size_t alignment) {
        std::scoped_lock const guard(lock_);
        if (closed_) return make_error_code(tenure::errc::store_closed);
        if (!std::has_single_bit(alignment) || alignment > std::size_t{1} << 30)
            return make_error_code(tenure::errc::bad_alignment);
        if (bytes > std::size_t{1} << 40) return make_error_code(tenure::errc::store_full);
        if (capacity_ != 0 && bytes > capacity_ - held_) return make_error_code(tenure::errc::store_full);
        tenure::block const b{next_id_++, bytes};
        live_.try_emplace(b.id, bytes, alignment);
        held_ += bytes;
        return b;
    }

    tenure::result<void> deallocate(std::span<tenure::block const> many) noexcept {
        std::scoped_lock const guard(lock_);
        if (closed_) return make_error_code(tenure::errc::store_closed);
        bool all = true;
        for (tenure::block const b : many) all &= free(b);
        if (!all) return make_error_code(tenure::errc::no_such_block);
        return {};
    }

    tenure::result<void> read(tenure::block b, std::size_t offset, std::span<std::byte> out) {
        std::scoped_lock const guard(lock_);
        auto const             at = range(b, offset, out.size());
        if (at) std::copy_n(*at, out.size(), out.begin());
        return without_value(at);
    }

    tenure::result<void> write(tenure::block b, std::size_t offset, std::span<std::byte const> in) {
        std::scoped_lock const guard(lock_);
        auto const             at = range(b, offset, in.size());
        if (at) std::ranges::copy(in, *at);
        return without_value(at);
    }

    tenure::store_usage usage() const noexcept {
        std::scoped_lock const guard(lock_);
        return {held_, live_.size(), capacity_};
    }

    std::string describe() const { return "plain store"; }

    tenure::result<std::byte*> address(tenure::block b)
        requires(Traits.addressable)
    {
        std::scoped_lock const guard(lock_);
        return range(b, 0, 0);
    }

    tenure::result<void> copy(tenure::block from, std::size_t from_offset, tenure::block to, std::size_t to_offset,
                              std::size_t bytes)
        requires(Traits.copyable)
    {
        std::scoped_lock const guard(lock_);
        auto const             source = range(from, from_offset, bytes), target = range(to, to_offset, bytes);
        if (source && target) std::copy_n(*source, bytes, *target);
        return without_value(source ? target : source);
    }

    tenure::result<tenure::block> allocate_in(std::uint64_t batch, std::size_t bytes, std::size_t alignment)
        requires(Traits.batched)
    {
        auto const             b = allocate(bytes, alignment);
        std::scoped_lock const guard(lock_);
        if (b) live_.at(b->id).batch = batch;
        return b;
    }

    tenure::result<void> transfer(std::span<tenure::block const> many, std::uint64_t batch)
        requires(Traits.batched)
    {
        std::scoped_lock const guard(lock_);
        for (tenure::block const b : many)
            if (auto const r = range(b, 0, 0); !r) return r.error();
        for (tenure::block const b : many) live_.at(b.id).batch = batch;
        return {};
    }

    tenure::result<void> deallocate_batch(std::uint64_t batch, std::span<tenure::block const>) noexcept
        requires(Traits.batched)
    {
        std::scoped_lock const guard(lock_);
        for (auto at = live_.begin(); at != live_.end();) {
            tenure::block const b{at->first, at->second.bytes};
            bool const          in = at->second.batch == batch;
            ++at;
            if (in) free(b);
        }
        return {};
    }

    tenure::result<void> keep(tenure::block b, std::string_view name)
        requires(Traits.durable)
    {
        std::scoped_lock const guard(lock_);
        auto const             r = range(b, 0, 0);
        if (r) {
            for (auto& [id, x] : live_)
                if (x.name == name) x.name.clear();
            live_.at(b.id).name = name;
        }
        return without_value(r);
    }

    tenure::result<tenure::block> find(std::string_view name)
        requires(Traits.durable)
    {
        std::scoped_lock const guard(lock_);
        if (closed_) return make_error_code(tenure::errc::store_closed);
        for (auto const& [id, x] : live_)
            if (!name.empty() && x.name == name) return tenure::block{id, x.bytes};
        return make_error_code(tenure::errc::no_such_block);
    }

    tenure::result<void> sync(std::span<tenure::block const> many)
        requires(Traits.durable)
    {
        std::scoped_lock const guard(lock_);
        for (tenure::block const b : many)
            if (auto const r = range(b, 0, 0); !r) return r.error();
        write_kept();
        return {};
    }

    tenure::result<void> close()
        requires(Traits.durable)
    {
        std::scoped_lock const guard(lock_);
        if (closed_) return make_error_code(tenure::errc::store_closed);
        write_kept();
        closed_ = true;
        return {};
    }

    std::shared_ptr<plain_disk> const& disk() const noexcept { return disk_; }

protected:
    /// One live block, in a mapping or an array of its own.
    struct piece {
        piece(std::size_t n, std::size_t alignment) : bytes(n), room(std::max<std::size_t>(n, 1) + alignment) {
            if constexpr (Traits.anonymous) {
                void* const p = ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                if (p == MAP_FAILED) throw std::bad_alloc();
                whole = {static_cast<std::byte*>(p), [n = room](std::byte* m) { ::munmap(m, n); }};
            } else {
                whole = {new std::byte[room]{}, [](std::byte* m) { delete[] m; }};
            }
            void*       p    = whole.get();
            std::size_t left = room;
            start            = static_cast<std::byte*>(std::align(alignment, n, p, left));
        }
        std::byte* memory() const noexcept { return start; }

        std::size_t                bytes, room;
        std::shared_ptr<std::byte> whole;
        std::byte*                 start = nullptr;
        std::string                name;       ///< under which it is kept; empty: it is not
        std::uint64_t              batch = 0;  ///< that it is in; 0: none
    };

    /// Where the range begins. Called under the lock.
    virtual tenure::result<std::byte*> range(tenure::block b, std::size_t offset, std::size_t size) const {
        if (closed_) return make_error_code(tenure::errc::store_closed);
        auto const at = live_.find(b.id);
        if (at == live_.end() || at->second.bytes != b.bytes) return make_error_code(tenure::errc::no_such_block);
        if (offset > b.bytes || size > b.bytes - offset) return make_error_code(tenure::errc::out_of_range);
        return at->second.memory() + offset;
    }

    /// False: there is no such block. Called under the lock.
    virtual bool free(tenure::block b) noexcept {
        auto const at = live_.find(b.id);
        if (at == live_.end() || at->second.bytes != b.bytes) return false;
        held_ -= b.bytes;
        live_.erase(at);
        return true;
    }

    static tenure::result<void> without_value(tenure::result<std::byte*> const& r) {
        if (!r) return r.error();
        return {};
    }

    void write_kept() {
        if (!disk_ || closed_) return;
        disk_->files.clear();
        for (auto const& [id, x] : live_)
            if (!x.name.empty()) disk_->files[x.name].assign(x.memory(), x.memory() + x.bytes);
    }

    mutable std::mutex             lock_;
    std::map<std::uint64_t, piece> live_;
    std::uint64_t                  next_id_  = 1;
    std::size_t                    held_     = 0;
    std::size_t                    capacity_ = 0;
    std::shared_ptr<plain_disk>    disk_;
    bool                           closed_ = false;
};

static_assert(tenure::backing_store<plain_store<>>);
static_assert(tenure::backing_store<plain_store<{.addressable = true, .anonymous = true}>>);
static_assert(tenure::backing_store<plain_store<{.batched = true}>>);
static_assert(tenure::backing_store<plain_store<{.addressable = true, .durable = true, .copyable = true}>>);

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

#include <tenure/detail/base/sizes.hpp>
#include <tenure/detail/blocks/block_table.hpp>
#include <tenure/detail/blocks/chunks.hpp>
#include <tenure/detail/blocks/gather_space.hpp>
#include <tenure/detail/blocks/is_gone.hpp>
#include <tenure/store/concept.hpp>

namespace tenure::detail {

/// What blocks of either of two stores can do. None is durable: a name could not be replaced in both at once.
constexpr store_traits in_both(store_traits a, store_traits b) noexcept {
    return {.addressable = a.addressable && b.addressable,
            .anonymous   = a.anonymous && b.anonymous,
            .copyable    = a.copyable && b.copyable};
}

/// A store whose blocks are in one or the other of two upstreams, and stay there. A derived class says in which.
///
/// Both upstreams may use one id, so blocks have ids of this store's own. Each upstream has a table of them, and an
/// id tells its table.
template <backing_store First, backing_store Second>
class split_store {
public:
    static constexpr store_traits traits = in_both(First::traits, Second::traits);

    split_store(split_store const&)            = delete;
    split_store& operator=(split_store const&) = delete;

    /// Frees blocks, and reports an upstream's error. What an upstream did not free lives on.
    result<void> deallocate(std::span<block const> many) noexcept {
        std::error_code wrong;
        while (!many.empty()) {
            block                        single;
            gather_space::range const    room(gather_, many.size());
            std::span<block> const       homes = room.blocks().empty() ? std::span(&single, 1) : room.blocks();
            std::span<block const> const part  = many.first(std::min(many.size(), homes.size()));
            std::size_t                  front = 0, back = homes.size();
            for (block const b : part) {
                if (result<block> const home = find(b)) (is_first(b) ? homes[front++] : homes[--back]) = *home;
                else if (!wrong) wrong = home.error();
            }
            std::ranges::reverse(homes.subspan(back));  // an upstream may gain from the order of allocation
            result<void> const f = front ? first_->deallocate(homes.first(front)) : result<void>();
            result<void> const s = back < homes.size() ? second_->deallocate(homes.subspan(back)) : result<void>();
            for (result<void> const& r : {f, s})
                if (!r && (!wrong || wrong == errc::no_such_block)) wrong = r.error();
            for (block const b : part) is_first(b) ? strike(*first_, b, f) : strike(*second_, b, s);
            many = many.subspan(part.size());
        }
        if (wrong) return wrong;
        return {};
    }

    result<void> read(block b, std::size_t offset, std::span<std::byte> out) {
        return at_home(b, [&](auto& upstream, block home) { return upstream.read(home, offset, out); });
    }
    result<void> write(block b, std::size_t offset, std::span<std::byte const> in) {
        return at_home(b, [&](auto& upstream, block home) { return upstream.write(home, offset, in); });
    }
    result<std::byte*> address(block b)
        requires(traits.addressable)
    {
        return at_home(b, [](auto& upstream, block home) { return upstream.address(home); });
    }

    /// Copies. From one upstream to the other the bytes pass through this process.
    result<void> copy(block from, std::size_t from_offset, block to, std::size_t to_offset, std::size_t bytes)
        requires(traits.copyable)
    {
        result<block> const target = find(to);
        if (!target) return target.error();
        return at_home(from, [&](auto& upstream, block source) -> result<void> {
            if (is_first(from) == is_first(to))
                return upstream.copy(source, from_offset, *target, to_offset, bytes);
            if (!is_within(from_offset, bytes, from.bytes) || !is_within(to_offset, bytes, to.bytes))
                return make_error_code(errc::out_of_range);
            auto const put = [&](std::size_t at, std::span<std::byte const> piece) {
                return write(to, at - from_offset + to_offset, piece);
            };
            return for_each_chunk(upstream, source, from_offset, bytes, put);
        });
    }

    /// Counts blocks allocated here. The capacity is what both upstreams can hold, if both say so.
    store_usage usage() const noexcept {
        std::size_t const a = first_->usage().capacity, b = second_->usage().capacity;
        return {bytes_.load(std::memory_order_relaxed), tables_[0].size() + tables_[1].size(),
                a && b && can_add(a, b) ? a + b : 0};
    }

protected:
    split_store(std::shared_ptr<First> first, std::shared_ptr<Second> second) noexcept
        : first_(std::move(first)), second_(std::move(second)) {}

    /// Frees what is live, since nobody else knows it by the upstreams' ids. In a forked child there may be blocks
    /// that another thread was allocating, and no room to gather them.
    ~split_store() {
        gather_space::range const room(gather_, tables_[0].size() + tables_[1].size());
        std::span<block> const    homes = room.blocks();
        std::size_t               front = 0, back = homes.size();
        tables_[0].for_each([&](std::uint64_t, block home) {
            if (home.id) homes[front++] = home;
        });
        tables_[1].for_each([&](std::uint64_t, block home) {
            if (home.id) homes[--back] = home;
        });
        if (front) static_cast<void>(first_->deallocate(homes.first(front)));
        if (back < homes.size()) static_cast<void>(second_->deallocate(homes.subspan(back)));
    }

    result<block> allocate_in_first(std::size_t bytes, std::size_t alignment) {
        return allocate_in(*first_, tables_[0], bytes, alignment);
    }
    result<block> allocate_in_second(std::size_t bytes, std::size_t alignment) {
        return allocate_in(*second_, tables_[1], bytes, alignment);
    }

    std::shared_ptr<First> const  first_;
    std::shared_ptr<Second> const second_;

private:
    /// Blocks by their names upstream. While one is being allocated, that id is 0.
    using table = block_table<block>;

    static bool is_first(block b) noexcept { return table::number_of(b.id) == 0; }

    /// Enters the block before it is there, because that may fail.
    template <class Upstream>
    result<block> allocate_in(Upstream& upstream, table& blocks, std::size_t bytes, std::size_t alignment) {
        std::uint64_t const id = blocks.insert({0, bytes});
        if (!id) return make_error_code(errc::memory_full);
        result<block> home = make_error_code(errc::memory_full);
        if (gather_.reserve(tables_[0].size() + tables_[1].size())) home = upstream.allocate(bytes, alignment);
        if (!home) {
            block none;
            blocks.erase(id, none);
            return home.error();
        }
        std::atomic_ref(blocks.find(id)->id).store(home->id, std::memory_order_release);
        bytes_.fetch_add(bytes, std::memory_order_relaxed);
        return block{id, bytes};
    }

    /// Returns what the block's upstream calls it.
    result<block> find(block b) const noexcept {
        block home;
        if (!tables_[is_first(b) ? 0 : 1].find(b.id, home) || home.bytes != b.bytes || !home.id)
            return make_error_code(errc::no_such_block);
        return home;
    }

    template <class Call>
    auto at_home(block b, Call call) -> decltype(call(*first_, b)) {
        result<block> const home = find(b);
        if (!home) return home.error();
        return is_first(b) ? call(*first_, *home) : call(*second_, *home);
    }

    /// Strikes out a block that is gone after a deallocate() with that outcome. Of threads that freed the same
    /// block, one strikes it out.
    template <class Upstream>
    void strike(Upstream& upstream, block b, result<void> const& outcome) noexcept {
        result<block> const home = find(b);
        if (!home || !(outcome || is_gone(upstream, *home))) return;
        block gone;
        if (tables_[is_first(b) ? 0 : 1].erase(b.id, gone)) bytes_.fetch_sub(gone.bytes, std::memory_order_relaxed);
    }

    table                    tables_[2]{table(0), table(1)};
    gather_space             gather_;
    std::atomic<std::size_t> bytes_{0};
};

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <sys/mman.h>

#include "plain_store.hpp"

/// Stores with one mistake each, that real ones have had or well might. All are deterministic, and none does what a
/// sanitizer would stop: it is the suite that must find them. To be called by one thread at a time.
namespace broken {

using tenure::block;
using tenure::errc;
using tenure::result;

using simple   = plain_store<>;
using mapped   = plain_store<{.addressable = true}>;
using copying  = plain_store<{.copyable = true}>;
using kept     = plain_store<{.durable = true}>;
using in_batch = plain_store<{.batched = true}>;
using in_bytes = std::span<std::byte const>;
using out      = std::span<std::byte>;
using blocks   = std::span<block const>;

// --- allocate
// ------------------------------------------------------------------------------------------------------

struct cuts_long_writes : simple {
    result<void> write(block b, std::size_t at, in_bytes in) {
        return simple::write(b, at, in.size() > 65'536 ? in.first(65'536) : in);
    }
};

struct gives_id_zero : simple {
    gives_id_zero() { next_id_ = 0; }
};

struct counts_no_empty_blocks : simple {
    tenure::store_usage usage() const noexcept {
        auto u = simple::usage();
        for (auto const& [id, x] : live_) u.blocks -= x.bytes == 0;
        return u;
    }
};

struct has_one_empty_block : simple {
    result<block> allocate(std::size_t n, std::size_t alignment) {
        if (n != 0) return simple::allocate(n, alignment);
        if (empty_.id == 0) empty_ = *simple::allocate(0, 1);
        return empty_;
    }
    block empty_;
};

struct ignores_alignment : mapped {
    result<block> allocate(std::size_t n, std::size_t alignment) {
        auto const b = mapped::allocate(n, alignment);
        if (b) live_.at(b->id).start = live_.at(b->id).whole.get() + 1;  // there is room for one more
        return b;
    }
};

struct takes_any_alignment : simple {
    result<block> allocate(std::size_t n, std::size_t alignment) {
        return simple::allocate(n, std::has_single_bit(alignment) ? alignment : 1);
    }
};

struct narrows_alignments : mapped {
    result<block> allocate(std::size_t n, std::size_t alignment) {
        return mapped::allocate(n, alignment > std::size_t{1} << 31 ? 1 : alignment);
    }
};

struct wraps_absurd_sizes : simple {
    result<block> allocate(std::size_t n, std::size_t alignment) {
        if (std::size_t const pages = (n + 4095) / 4096; n == 0 || pages != 0)
            return simple::allocate(n, alignment);
        auto const b = simple::allocate(0, alignment);
        return block{b->id, n};
    }
};

struct leaks_when_refusing : simple {
    result<block> allocate(std::size_t n, std::size_t alignment) {
        auto const b = simple::allocate(n, alignment);
        if (!b && n != 0) held_ += 1;
        return b;
    }
};

struct reuses_ids : simple {
    result<block> allocate(std::size_t n, std::size_t alignment) {
        if (!freed_.empty()) {
            next_id_ = *freed_.begin();
            freed_.erase(freed_.begin());
            auto const b = simple::allocate(n, alignment);
            next_id_     = last_ + 1;
            return b;
        }
        auto const b = simple::allocate(n, alignment);
        if (b) last_ = b->id;
        return b;
    }
    bool free(block b) noexcept override {
        if (!simple::free(b)) return false;
        freed_.insert(b.id);
        return true;
    }
    std::uint64_t           last_ = 0;
    std::set<std::uint64_t> freed_;
};

// --- usage
// ---------------------------------------------------------------------------------------------------------

struct counts_rounded_bytes : simple {
    tenure::store_usage usage() const noexcept {
        tenure::store_usage u = simple::usage();
        u.bytes               = (u.bytes + 15) / 16 * 16;
        return u;
    }
};

struct counts_writes : simple {
    result<void> write(block b, std::size_t at, in_bytes in) {
        held_ += at == 5;
        return simple::write(b, at, in);
    }
};

struct overruns_capacity : simple {
    overruns_capacity() : simple(1 << 20) {}
    result<block> allocate(std::size_t n, std::size_t alignment) {
        capacity_ *= 2;
        auto const b = simple::allocate(n, alignment);
        capacity_ /= 2;
        return b;
    }
};

struct full_for_ever : simple {
    full_for_ever() : simple(1 << 20) {}
    result<block> allocate(std::size_t n, std::size_t alignment) {
        if (full_) return make_error_code(errc::store_full);
        auto const b = simple::allocate(n, alignment);
        full_        = b.has_error() && b.error() == errc::store_full;
        return b;
    }
    bool full_ = false;
};

struct full_of_other_errors : simple {
    full_of_other_errors() : simple(1 << 20) {}
    result<block> allocate(std::size_t n, std::size_t alignment) {
        auto const b = simple::allocate(n, alignment);
        if (!b && b.error() == errc::store_full) return std::make_error_code(std::errc::io_error);
        return b;
    }
};

// --- read and write
// ------------------------------------------------------------------------------------------------

struct writes_at_the_start : simple {
    result<void> write(block b, std::size_t, in_bytes in) { return simple::write(b, 0, in); }
};

struct fills_whole_words : simple {
    result<void> write(block b, std::size_t at, in_bytes in) {
        std::vector<std::byte> rounded(in.begin(), in.end());
        while (rounded.size() % 8 != 0 && at + rounded.size() < b.bytes) rounded.push_back(std::byte{0});
        return simple::write(b, at, rounded);
    }
};

struct overlaps : mapped {
    result<block> allocate(std::size_t n, std::size_t alignment) {
        auto const b = mapped::allocate(n, alignment);
        if (!b) return b;
        auto const own = live_.find(b->id);
        if (own != live_.begin() && b->id % 7 == 0 && n != 0) {
            auto const& before = std::prev(own)->second;
            if (before.bytes >= n && alignment == 1)
                own->second.whole = before.whole, own->second.start = before.start;
        }
        return b;
    }
};

template <bool Refuses>
struct reads_what_there_is : simple {
    result<void> read(block b, std::size_t at, out to) {
        auto const r = simple::read(b, at, to);
        if (r || r.error() != errc::out_of_range || at > b.bytes) return r;
        auto const some = simple::read(b, at, to.first(b.bytes - at));
        return Refuses ? r : some;
    }
};

template <bool Refuses>
struct writes_what_fits : simple {
    result<void> write(block b, std::size_t at, in_bytes in) {
        auto const r = simple::write(b, at, in);
        if (r || r.error() != errc::out_of_range || at > b.bytes) return r;
        auto const some = simple::write(b, at, in.first(b.bytes - at));
        return Refuses ? r : some;
    }
};

struct adds_before_it_compares : simple {
    result<void> read(block b, std::size_t at, out to) {
        if (at > b.bytes && at + to.size() <= b.bytes) return {};  // as if there were something
        return simple::read(b, at, to);
    }
    result<void> write(block b, std::size_t at, in_bytes in) {
        if (at > b.bytes && at + in.size() <= b.bytes) return {};
        return simple::write(b, at, in);
    }
};

// --- deallocate
// ----------------------------------------------------------------------------------------------------

struct reads_the_dead : simple {
    result<void> read(block b, std::size_t at, out to) {
        if (graves_.contains(b)) return {};
        return simple::read(b, at, to);
    }
    bool free(block b) noexcept override {
        if (!simple::free(b)) return false;
        graves_.insert(b);
        return true;
    }
    std::set<block> graves_;
};

struct keeps_counting : simple {
    bool free(block b) noexcept override {
        bool const freed = simple::free(b);
        held_ += freed && b.bytes == 1;
        return freed;
    }
};

struct frees_twice : simple {
    result<void> deallocate(blocks many) noexcept {
        auto const r = simple::deallocate(many);
        return many.size() == 1 ? result<void>{} : r;
    }
};

struct counts_twice : simple {
    bool free(block b) noexcept override {
        bool const freed = simple::free(b);
        if (!freed && held_ >= b.bytes) held_ -= b.bytes;
        return freed;
    }
};

/// Ids are the process's, so that this one sees which are not its own, and says that all is well.
struct forgives_strangers : simple {
    forgives_strangers() { next_id_ = first_ = next_ += 1'000'000; }
    bool free(block b) noexcept override { return simple::free(b) || b.id < first_ || b.id >= next_id_; }

    std::uint64_t               first_;
    static inline std::uint64_t next_ = 0;
};

struct sees_half_the_id : simple {
    result<std::byte*> range(block b, std::size_t at, std::size_t n) const override {
        return simple::range({b.id & 0xffff'ffff, b.bytes}, at, n);
    }
    bool free(block b) noexcept override { return simple::free({b.id & 0xffff'ffff, b.bytes}); }
};

struct ignores_bytes : simple {
    block as_given(block b) const {
        auto const at = live_.find(b.id);
        return at == live_.end() ? b : block{b.id, at->second.bytes};
    }
    result<std::byte*> range(block b, std::size_t at, std::size_t n) const override {
        return simple::range(as_given(b), at, n);
    }
    bool free(block b) noexcept override { return simple::free(as_given(b)); }
};

struct refuses_nothing : simple {
    result<void> deallocate(blocks many) noexcept {
        if (many.empty()) return std::make_error_code(std::errc::invalid_argument);
        return simple::deallocate(many);
    }
};

struct frees_a_thousand : simple {
    result<void> deallocate(blocks many) noexcept {
        return simple::deallocate(many.size() > 1000 ? many.first(1000) : many);
    }
};

struct forgets_one_of_many : simple {
    result<void> deallocate(blocks many) noexcept {
        return simple::deallocate(many.size() > 1000 ? many.first(many.size() - 1) : many);
    }
};

struct stops_at_the_dead : simple {
    result<void> deallocate(blocks many) noexcept {
        for (std::size_t i = 0; i < many.size(); ++i)
            if (auto const r = simple::deallocate(many.subspan(i, 1)); !r) return r;
        return {};
    }
};

struct frees_all_or_none : simple {
    result<void> deallocate(blocks many) noexcept {
        for (block const b : many)
            if (auto const r = simple::write(b, 0, {}); !r) return r;
        return simple::deallocate(many);
    }
};

struct hides_the_dead : simple {
    result<void> deallocate(blocks many) noexcept {
        auto const r = simple::deallocate(many);
        return many.size() > 1 ? result<void>{} : r;
    }
};

struct looks_before_it_frees : simple {
    result<void> deallocate(blocks many) noexcept {
        bool all = true;
        for (block const b : many) all &= simple::write(b, 0, {}).has_value();
        auto const r = simple::deallocate(many);
        return all ? result<void>{} : r;
    }
};

struct is_content_with_the_dead : simple {
    result<void> deallocate(blocks many) noexcept {
        std::size_t const before = usage().blocks;
        auto const        r      = simple::deallocate(many);
        return many.size() > 1 && usage().blocks == before ? result<void>{} : r;
    }
};

// --- threads
// -------------------------------------------------------------------------------------------------------

struct drops_a_write : simple {
    result<void> write(block b, std::size_t at, in_bytes in) {
        if (++writes_ % 61 == 0) return {};
        return simple::write(b, at, in);
    }
    int writes_ = 0;
};

struct counts_on_one_thread : simple {
    result<block> allocate(std::size_t n, std::size_t alignment) {
        auto const b = simple::allocate(n, alignment);
        if (b && std::this_thread::get_id() != home_) held_ -= n;
        return b;
    }
    std::thread::id home_ = std::this_thread::get_id();
};

struct frees_on_one_thread : simple {
    bool free(block b) noexcept override { return std::this_thread::get_id() != home_ || simple::free(b); }
    std::thread::id home_ = std::this_thread::get_id();
};

struct lets_only_the_writer_read : simple {
    result<void> read(block b, std::size_t at, out to) {
        auto const w = writers_.find(b.id);
        if (w != writers_.end() && w->second != std::this_thread::get_id())
            return std::make_error_code(std::errc::device_or_resource_busy);
        return simple::read(b, at, to);
    }
    result<void> write(block b, std::size_t at, in_bytes in) {
        writers_[b.id] = std::this_thread::get_id();
        return simple::write(b, at, in);
    }
    std::map<std::uint64_t, std::thread::id> writers_;
};

// --- addressable, anonymous
// ----------------------------------------------------------------------------------------

struct has_null_for_zero : mapped {
    result<std::byte*> address(block b) {
        auto const p = mapped::address(b);
        if (p && b.bytes == 0) return nullptr;
        return p;
    }
};

struct moves_blocks : mapped {
    result<block> allocate(std::size_t n, std::size_t alignment) {
        auto const b = mapped::allocate(n, alignment);
        if (!b || b->id % 10 != 0) return b;
        auto& first = live_.begin()->second;
        piece moved(first.bytes, 4096);
        std::copy_n(first.memory(), first.bytes, moved.memory());
        old_.push_back(std::move(first.whole));
        first.whole = moved.whole;
        first.start = moved.start;
        return b;
    }
    std::vector<std::shared_ptr<std::byte>> old_;  // for who still has their addresses
};

struct shows_a_copy : mapped {
    result<std::byte*> address(block b) {
        auto const p = mapped::address(b);
        if (!p) return p;
        auto& shadow = shadows_[b.id];
        if (shadow.empty()) shadow.resize(b.bytes + 65'536);
        void*       start = shadow.data();
        std::size_t left  = shadow.size();
        return static_cast<std::byte*>(std::align(65'536, b.bytes, start, left));
    }
    std::map<std::uint64_t, std::vector<std::byte>> shadows_;
};

struct is_shared_memory : plain_store<{.addressable = true, .anonymous = true}> {
    using base = plain_store<{.addressable = true, .anonymous = true}>;
    result<block> allocate(std::size_t n, std::size_t alignment) {
        auto const b = base::allocate(n, alignment);
        if (!b) return b;
        piece&            x = live_.at(b->id);
        std::size_t const m = x.room;
        void* const       p = ::mmap(nullptr, m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) throw std::bad_alloc();
        x.start += static_cast<std::byte*>(p) - x.whole.get();  // both begin with a page
        x.whole = {static_cast<std::byte*>(p), [m](std::byte* q) { ::munmap(q, m); }};
        return b;
    }
};

// --- copyable
// ------------------------------------------------------------------------------------------------------

struct copies_from_the_start : copying {
    result<void> copy(block from, std::size_t, block to, std::size_t into, std::size_t n) {
        return copying::copy(from, 0, to, into, n);
    }
};

struct copies_no_block_to_itself : copying {
    result<void> copy(block from, std::size_t at, block to, std::size_t into, std::size_t n) {
        if (from == to) return std::make_error_code(std::errc::invalid_argument);
        return copying::copy(from, at, to, into, n);
    }
};

struct copies_what_fits : copying {
    result<void> copy(block from, std::size_t at, block to, std::size_t into, std::size_t n) {
        auto const r = copying::copy(from, at, to, into, n);
        if (r || r.error() != errc::out_of_range || at > from.bytes || into > to.bytes) return r;
        return copying::copy(from, at, to, into, std::min({n, from.bytes - at, to.bytes - into}));
    }
};

struct copies_to_the_dead : copying {
    result<void> copy(block from, std::size_t at, block to, std::size_t into, std::size_t n) {
        if (n == 0) return {};
        return copying::copy(from, at, to, into, n);
    }
};

// --- batched
// -------------------------------------------------------------------------------------------------------

struct has_one_batch : in_batch {
    result<block> allocate_in(std::uint64_t, std::size_t n, std::size_t a) {
        return in_batch::allocate_in(1, n, a);
    }
};

struct has_small_batches : in_batch {
    result<void> deallocate_batch(std::uint64_t batch, blocks many) noexcept {
        for (block const b : many.first(std::min<std::size_t>(many.size(), 64))) {
            std::scoped_lock const guard(lock_);
            free(b);
        }
        return many.size() > 64 ? result<void>{} : in_batch::deallocate_batch(batch, many);
    }
};

struct transfers_nothing : in_batch {
    result<void> transfer(blocks many, std::uint64_t) { return in_batch::transfer(many, 1); }
};

struct transfers_what_lives : in_batch {
    result<void> transfer(blocks many, std::uint64_t batch) {
        result<void> all = {};
        for (block const b : many)
            if (auto const r = in_batch::transfer({&b, 1}, batch); !r) all = r;
        return all;
    }
};

struct ends_a_batch_once : in_batch {
    result<void> deallocate_batch(std::uint64_t batch, blocks many) noexcept {
        std::size_t const before = usage().blocks;
        auto const        r      = in_batch::deallocate_batch(batch, many);
        if (usage().blocks == before) return make_error_code(errc::no_such_batch);
        return r;
    }
};

// --- durable
// -------------------------------------------------------------------------------------------------------

struct finds_in_any_case : kept {
    result<block> find(std::string_view name) {
        std::string s(name);
        for (char& c : s) c |= 32;
        return kept::find(s);
    }
};

struct first_keeper_wins : kept {
    result<void> keep(block b, std::string_view name) {
        if (kept::find(name)) return {};
        return kept::keep(b, name);
    }
};

struct finds_the_dead : kept {
    result<void> keep(block b, std::string_view name) {
        auto const r = kept::keep(b, name);
        if (r) names_[std::string(name)] = b;
        return r;
    }
    result<block> find(std::string_view name) {
        if (auto const at = names_.find(name); at != names_.end()) return at->second;
        return kept::find(name);
    }
    std::map<std::string, block, std::less<>> names_;
};

struct syncs_anything : kept {
    result<void> sync(blocks) { return {}; }
};

struct is_never_closed : kept {
    result<void> close() { return {}; }
};

struct reads_after_close : kept {
    result<void> read(block b, std::size_t at, out to) {
        auto const r = kept::read(b, at, to);
        if (!r && r.error() == errc::store_closed) return {};
        return r;
    }
};

/// Those below open their disk again.
struct on_disk : kept {
    on_disk() : kept(std::make_shared<plain_disk>()) {}
    using kept::kept;
};

struct forgets_what_was_kept : on_disk {
    using on_disk::on_disk;
    result<void> close() {
        auto const r = on_disk::close();
        if (disk()) disk()->files.erase("kept/3");
        return r;
    }
};

struct keeps_what_it_saw_first : on_disk {
    using on_disk::on_disk;
    result<void> keep(block b, std::string_view name) {
        auto const r = on_disk::keep(b, name);
        if (!r) return r;
        auto& bytes = first_[std::string(name)];
        bytes.resize(b.bytes);
        return on_disk::read(b, 0, bytes);
    }
    result<void> close() {
        auto const r = on_disk::close();
        for (auto& [name, bytes] : first_)
            if (disk()->files.contains(name)) disk()->files[name] = bytes;
        return r;
    }
    std::map<std::string, std::vector<std::byte>> first_;
};

struct keeps_everything : on_disk {
    using on_disk::on_disk;
    result<void> close() {
        for (auto& [id, x] : live_)
            if (x.name.empty()) x.name = "unkept " + std::to_string(id);
        return on_disk::close();
    }
};

struct brings_back_the_freed : on_disk {
    using on_disk::on_disk;
    bool free(block b) noexcept override {
        freed_.insert(live_.contains(b.id) ? live_.at(b.id).name : "");
        return on_disk::free(b);
    }
    result<void> close() {
        auto const r = on_disk::close();
        for (auto const& name : freed_)
            if (!name.empty()) disk()->files[name];
        return r;
    }
    std::set<std::string> freed_;
};

struct writes_only_when_closed : on_disk {
    using on_disk::on_disk;
    ~writes_only_when_closed() override { closed_ = true; }
};

// --- exceptions
// ----------------------------------------------------------------------------------------------------

struct throws : simple {
    result<void> write(block b, std::size_t at, in_bytes in) {
        if (at > b.bytes) throw std::out_of_range("beyond the end");
        return simple::write(b, at, in);
    }
};

struct throws_a_number : simple {
    result<void> write(block b, std::size_t at, in_bytes in) {
        if (at > b.bytes) throw 42;
        return simple::write(b, at, in);
    }
};

// --------------------------------------------------------------------------------------------------------------------

/// Callable by any thread: a mistake is to be that mistake, and not a race besides.
template <class S>
struct one_at_a_time : S {
    using S::S;

    result<block> allocate(std::size_t n, std::size_t alignment) {
        std::scoped_lock const guard(one_);
        return S::allocate(n, alignment);
    }
    result<void> deallocate(blocks many) noexcept {
        std::scoped_lock const guard(one_);
        return S::deallocate(many);
    }
    result<void> read(block b, std::size_t at, out to) {
        std::scoped_lock const guard(one_);
        return S::read(b, at, to);
    }
    result<void> write(block b, std::size_t at, in_bytes in) {
        std::scoped_lock const guard(one_);
        return S::write(b, at, in);
    }
    tenure::store_usage usage() const noexcept {
        std::scoped_lock const guard(one_);
        return S::usage();
    }

private:
    mutable std::mutex one_;
};

}  // namespace broken

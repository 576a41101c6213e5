// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// The nastiest sizes, offsets and alignments at every public call that takes one: each call works or says why not,
// and whatever it says, what lives is unharmed and the books are right. Stores get theirs from check_store(), too.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tenure/derived.hpp>
#include <tenure/device/host.hpp>
#include <tenure/device/store.hpp>
#include <tenure/store/counted.hpp>
#include <tenure/store/dedup.hpp>
#include <tenure/store/durable_mmap.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/store/limited.hpp>
#include <tenure/store/mmap.hpp>
#include <tenure/store/tiered.hpp>
#include <tenure/tenure.hpp>
#include <tenure/testing/faulty_store.hpp>

#include "accounting.hpp"
#include "temporary.hpp"

namespace {

using namespace tenure;

constexpr std::size_t top = std::numeric_limits<std::size_t>::max();

/// Around every bound that the code has, around the powers of two, and all that wraps when something is added to it
/// or when it is multiplied. Nothing between 2 MiB and 2^46: that a machine may have, and the test would use it.
std::vector<std::size_t> nasty_sizes() {
    std::vector<std::size_t> all;
    for (std::size_t const n : {0u, 1u, 2u, 7u, 8u, 9u, 63u, 64u, 65u, 8184u, 8185u, 32'768u})
        for (std::size_t const less : {std::size_t{0}, n + 1}) all.push_back(n - less);  // from both ends
    for (std::size_t const unit : {std::size_t{1} << 16, std::size_t{1} << 21})
        for (std::size_t const d : {72u, 64u, 63u, 56u, 8u, 7u, 1u, 0u}) {
            all.insert(all.end(), {unit - d, unit + d, 0 - unit - d, 0 - unit + d});
        }
    for (int const bit : {46, 47, 48, 49, 60, 61, 62, 63})
        for (std::size_t const d : {65'536u, 4096u, 64u, 8u, 1u, 0u}) {
            all.push_back((std::size_t{1} << bit) + d);
            if (bit > 46) all.push_back((std::size_t{1} << bit) - d);
        }
    for (std::size_t const each : {3u, 8u, 24u, 48u, 4096u})  // n of them wrap to next to nothing
        for (std::size_t const d : {0u, 1u, 2u}) all.push_back(top / each + d);
    return all;
}

std::vector<std::size_t> nasty_alignments() {
    std::vector<std::size_t> all{0, 3, 5, 6, 7, 12, 24, 48, 65, 4097, 65'535, top, top - 7, top - 63, top / 2};
    for (std::size_t a = 1; a != 0; a *= 2)
        if (a <= std::size_t{1} << 21 || a > std::size_t{1} << 30) all.push_back(a);
    return all;
}

/// What must be as it was: objects of all kinds in a batch of their own, next to which the others are.
class bystanders {
public:
    explicit bystanders(registry& r) : batch_(r) { put(); }

    /// Makes some more: what was given out wrongly would be written to.
    void put() {
        for (std::size_t const n : {1u, 100u, 70'000u}) {
            pieces_.push_back(batch_.make<unsigned char[]>(n));
            std::memset(pieces_.back().span().data(), 0x5a, n);
        }
        strings_.push_back(batch_.make<std::string>(50, 's'));
    }
    void check() const {
        bool unharmed = true;
        for (auto const& p : pieces_)
            for (unsigned char const c : p.span()) unharmed = unharmed && c == 0x5a;
        for (auto const& s : strings_) unharmed = unharmed && *s == std::string(50, 's');
        CHECK(unharmed);
    }
    batch_scope& batch() noexcept { return batch_; }

private:
    batch_scope                          batch_;
    std::vector<handle<unsigned char[]>> pieces_;
    std::vector<handle<std::string>>     strings_;
};

bool is_about_size(std::error_code why) {
    return why == errc::memory_full || why == errc::store_full || why == errc::limit_exceeded ||
           why == errc::bad_alignment || why == errc::out_of_range;
}

/// Runs `f`, which may throw what says that a size is wrong. Whether it did not.
template <class F>
bool works(F f) {
    try {
        f();
        return true;
    } catch (error const& e) {
        CAPTURE(e.what());
        CHECK(is_about_size(e.code()));
    }
    return false;
}

/// Of what was given out, both ends are there, nothing else has them, and it lies as asked.
void touch(void* p, std::size_t bytes, std::size_t alignment) {
    CHECK(reinterpret_cast<std::uintptr_t>(p) % alignment == 0);
    if (bytes == 0) return;
    static_cast<unsigned char*>(p)[0]         = 0xff;
    static_cast<unsigned char*>(p)[bytes - 1] = 0xff;
}

template <class Resource>
void allocate_all_from(Resource resource, bystanders& others) {
    for (std::size_t const a : nasty_alignments())
        for (std::size_t const n : nasty_sizes()) {
            CAPTURE(n);
            CAPTURE(a);
            void*      p    = nullptr;
            bool const done = works([&] { p = resource()->allocate(n, a); });
            if (n >= std::size_t{1} << 46 || !std::has_single_bit(a)) CHECK_FALSE(done);
            else if (a <= 65'536) CHECK(done);
            if (!done) continue;
            touch(p, n, a);
            resource()->deallocate(p, n, a);
        }
    others.put();
    others.check();
}

template <class Make>
void make_all(Make make, bystanders& others) {
    for (std::size_t const n : nasty_sizes()) {
        CAPTURE(n);
        works([&] { make.template operator()<char>(n); });
        works([&] { make.template operator()<std::uint64_t>(n); });
        works([&] { make.template operator()<std::array<char, 24>>(n); });
        works(
            [&] { make.template operator()<std::pair<std::string, int>>(n > 100'000 && n <= 1 << 22 ? 100 : n); });
    }
    others.put();
    others.check();
}

/// Every pair at allocate(); then ranges of a block.
template <class Store>
void ask_store(std::shared_ptr<Store> const& store) {
    CAPTURE(detail::name_of(*store));
    std::vector<std::byte> const bytes(100, std::byte{0x5a});
    result<block> const          bystander = store->allocate(100, 1);
    REQUIRE(bystander.has_value());
    CHECK(store->write(*bystander, 0, bytes).has_value());
    store_usage const before = store->usage();
    for (std::size_t const a : nasty_alignments())
        for (std::size_t const n : nasty_sizes()) {
            if (a > 1 << 16 && a <= 1 << 30 && n <= 1 << 22) continue;  // it may take as much of a disk
            CAPTURE(n);
            CAPTURE(a);
            result<block> const b = store->allocate(n, a);
            if (!b) {
                CHECK(is_about_size(b.error()));
            } else {
                CHECK(b->id != 0);
                CHECK(b->bytes == n);
                CHECK(n <= std::size_t{1} << 62);
                CHECK(std::has_single_bit(a));
                CHECK(store->deallocate({&*b, 1}).has_value());
            }
        }
    CHECK(store->usage() == before);
    std::array<std::byte, 3> some{};
    for (std::size_t const n : nasty_sizes()) {
        if (n <= 97) continue;
        CAPTURE(n);
        CHECK(store->read(*bystander, n, some).error() == errc::out_of_range);
        CHECK(store->write(*bystander, n, some).error() == errc::out_of_range);
        if (n > 100) CHECK(store->read(*bystander, n, {}).error() == errc::out_of_range);
        if constexpr (Store::traits.copyable) {
            CHECK(store->copy(*bystander, n, *bystander, 0, 4).error() == errc::out_of_range);
            CHECK(store->copy(*bystander, 0, *bystander, n, 4).error() == errc::out_of_range);
            if (n > 100) CHECK(store->copy(*bystander, 0, *bystander, 0, n).error() == errc::out_of_range);
            CHECK(store->copy(*bystander, 50, *bystander, 0, n).error() == errc::out_of_range);
            CHECK(store->copy(*bystander, 0 - n, *bystander, 0, n).error() == errc::out_of_range);
        }
        if (n != 100) CHECK(store->read({bystander->id, n}, 0, some).error() == errc::no_such_block);
    }
    std::vector<std::byte> out(100);
    CHECK(store->read(*bystander, 0, out).has_value());
    CHECK(out == bytes);
    CHECK(store->deallocate({&*bystander, 1}).has_value());
    CHECK(store->usage().blocks == 0);
    CHECK(store->usage().bytes == 0);
}

auto host() { return std::make_shared<host_device>(); }

}  // namespace

TEST_SUITE("nasty sizes") {
    TEST_CASE("of resource()") {
        registry         r;
        accounting const books(r);
        bystanders       others(r);
        SUBCASE("a batch's own") {
            allocate_all_from([&] { return others.batch().resource(); }, others);
        }
        SUBCASE("an empty batch's") {
            batch_scope b(r);
            allocate_all_from([&] { return b.resource(); }, others);
        }
        SUBCASE("a fresh batch's each") {
            std::optional<batch_scope> b;
            allocate_all_from([&] { return (b.emplace(r), b->resource()); }, others);
        }
        SUBCASE("a lane's") {
            lane l = others.batch().lane();
            allocate_all_from([&] { return l.resource(); }, others);
        }
        SUBCASE("of a batch that was entered") {
            auto const in = others.batch().enter();
            allocate_all_from([&] { return tenure::lane(others.batch().lane()).resource(); }, others);
        }
        SUBCASE("with limits") {
            batch_scope b(r, {.limits = {.soft = 1, .hard = top}});
            allocate_all_from([&] { return b.resource(); }, others);
            batch_scope c(r, {.limits = {.hard = 5 << 20}});
            for (std::size_t const n : nasty_sizes()) {
                CAPTURE(n);
                void* p = nullptr;
                if (works([&] { p = c.resource()->allocate(n, 8); })) c.resource()->deallocate(p, n, 8);
            }
        }
    }

    TEST_CASE("of arrays") {
        registry         r;
        accounting const books(r);
        bystanders       others(r);
        SUBCASE("in a batch") {
            batch_scope b(r);
            make_all([&]<class T>(std::size_t n) { b.free(b.make<T[]>(n)); }, others);
            make_all([&]<class T>(std::size_t n) { b.free(tenure::make<T[]>(n)); }, others);
            make_all([&]<class T>(std::size_t n) { b.free(b.make_for_overwrite<T[]>(n)); }, others);
            make_all([&]<class T>(std::size_t n) { b.free(tenure::make_for_overwrite<T[]>(n)); }, others);
            CHECK(b.usage().objects == 0);
        }
        SUBCASE("by the try_ forms") {
            batch_scope b(r);
            make_all(
                [&]<class T>(std::size_t n) {
                    auto const h = b.try_make<T[]>(n);
                    if (h) CHECK(b.try_free(*h).has_value());
                    else CHECK(is_about_size(h.error()));
                },
                others);
            CHECK(b.usage().objects == 0);
        }
        SUBCASE("in a lane, and by an owner") {
            batch_owner owner(r);
            lane        l = others.batch().lane();
            make_all([&]<class T>(std::size_t n) { r.free(l.make<T[]>(n)); }, others);
            make_all([&]<class T>(std::size_t n) { r.free(l.make_for_overwrite<T[]>(n)); }, others);
            make_all([&]<class T>(std::size_t n) { r.free(owner.make<T[]>(n)); }, others);
            make_all([&]<class T>(std::size_t n) { r.free(owner.make_for_overwrite<T[]>(n)); }, others);
            CHECK(r.usage(owner.id()).objects == 0);
        }
        SUBCASE("and their indices") {
            auto const h = others.batch().make<int[]>(10);
            for (std::size_t const n : nasty_sizes()) {
                CAPTURE(n);
                CHECK(works([&] { h[n] = 1; }) == (n < 10));
            }
        }
    }

    TEST_CASE("of arrays where memory is limited: nothing goes out for what can never be") {
        temporary_directory const where;
        registry                  r({.memory_limit = {.high = 64 << 20}, .page_file = where.path()});
        batch_id const            idle = r.new_batch({.residency = residency::automatic});
        batch_id const            back = r.set_current_batch(idle);
        auto const                h    = tenure::make<char[]>(3 << 20);
        r.set_current_batch(back);
        batch_scope b(r);
        for (std::size_t const n : nasty_sizes())
            if (n > 64 << 20) CHECK(b.try_make<char[]>(n).error() == errc::memory_full);
        CHECK(r.usage(idle).paged_out == 0);
        CHECK(h.alive());
        r.end_batch(idle);
    }

    TEST_CASE("of buffers, and offsets in them") {
        registry         r;
        accounting const books(r);
        bystanders       others(r);
        any_store        store;
        SUBCASE("in memory") {}
        SUBCASE("in a store that takes what has no bytes yet") {
            store = std::make_shared<dedup_store<heap_store>>(std::make_shared<heap_store>());
        }
        SUBCASE("on a device") { store = std::make_shared<device_store<host_device>>(host()); }
        batch_scope b(r, {.limits = {.soft = 1}});
        make_all(
            [&]<class T>(std::size_t n) {
                if constexpr (std::is_trivially_copyable_v<T>) {
                    buffer<T> const x = b.make_buffer<T>(n, store);
                    CHECK(x.size() == n);
                    CHECK(x.block().bytes == n * sizeof(T));
                    CHECK(x.block().bytes / sizeof(T) == n);
                    b.free(x);
                }
            },
            others);
        make_all(
            [&]<class T>(std::size_t n) {
                if constexpr (std::is_trivially_copyable_v<T>) {
                    auto const x = b.try_make_buffer<T>(n, store);
                    if (x) b.free(*x);
                    else CHECK(is_about_size(x.error()));
                }
            },
            others);
        CHECK(b.usage().buffers == 0);

        buffer<int> const x = b.make_buffer<int>(10, store), longer = b.make_buffer<int>(11, store);
        std::vector<int>  v(10, 7), some(2, 1);
        x.write(0, v);
        for (std::size_t const n : nasty_sizes()) {
            CAPTURE(n);
            if (n > 8) {
                CHECK(x.try_read(n, some).error() == errc::out_of_range);
                CHECK(x.try_write(n, some).error() == errc::out_of_range);
                CHECK_FALSE(works([&] { x.read(n, some); }));
                CHECK_FALSE(works([&] { x.write(n, some); }));
            }
            if (n > 10) CHECK(x.try_read(n, {}).error() == errc::out_of_range);
        }
        CHECK_FALSE(works([&] { longer.copy_to(x); }));
        x.read(0, v);
        CHECK(v == std::vector<int>(10, 7));
        b.free(x);
        b.free(longer);
        CHECK(b.usage().buffers == 0);
    }

    TEST_CASE("of derived buffers") {
        registry         r;
        accounting const books(r);
        bystanders       others(r);
        batch_scope      b(r);
        make_all(
            [&]<class T>(std::size_t n) {
                if constexpr (std::is_trivially_copyable_v<T>) {
                    buffer<T> const x = make_derived<T>(n, [](std::span<T>) {});
                    works([&] {
                        auto const all = x.map();
                        CHECK(all.size() == n);
                    });
                    b.free(x);
                }
            },
            others);
        CHECK(b.usage().buffers == 0);
    }

    TEST_CASE("at stores") {
        auto const disk = [] { return std::make_shared<mmap_store>(std::filesystem::temp_directory_path()); };
        auto const heap = [] { return std::make_shared<heap_store>(); };
        SUBCASE("heap") { ask_store(heap()); }
        SUBCASE("heap with a capacity") {
            ask_store(std::make_shared<heap_store>(heap_options{.capacity = 10 << 20}));
            ask_store(std::make_shared<heap_store>(heap_options{.capacity = top}));
        }
        SUBCASE("mmap") { ask_store(disk()); }
        SUBCASE("durable") {
            temporary_directory const where;
            ask_store(mmap_store::open(where.path()));
        }
        SUBCASE("any") { ask_store(std::make_shared<any_store>(heap())); }
        SUBCASE("limited") {
            ask_store(std::make_shared<limited_store<heap_store>>(heap(), store_limits{.bytes = 10 << 20}));
            ask_store(std::make_shared<limited_store<heap_store>>(heap(), store_limits{}));
        }
        SUBCASE("counted") { ask_store(std::make_shared<counted_store<heap_store>>(heap())); }
        SUBCASE("faulty") { ask_store(std::make_shared<faulty_store<heap_store>>(heap())); }
        SUBCASE("tiered") {
            for (std::size_t const fast : {std::size_t{0}, std::size_t{1}, std::size_t{1} << 20, top})
                ask_store(std::make_shared<tiered_store<heap_store, mmap_store>>(
                    heap(), disk(), tiered_options{.fast_bytes = fast}));
        }
        SUBCASE("dedup") {
            auto const store = std::make_shared<dedup_store<heap_store>>(heap());
            ask_store(store);
            // Blocks without bytes cost nothing, and their sum is to be right all the same.
            std::vector<block> many;
            for (;;) {
                auto const b = store->allocate(std::size_t{1} << 60, 1);
                if (!b) break;
                many.push_back(*b);
                REQUIRE(many.size() < 16);
            }
            CHECK(store->usage().bytes == many.size() << 60);
            CHECK(store->deallocate(many).has_value());
            CHECK(store->usage().bytes == 0);
        }
        SUBCASE("device") {
            for (std::size_t const chunk : {std::size_t{0}, std::size_t{1}, std::size_t{64} << 20, top})
                for (std::size_t const keep : {std::size_t{0}, top})
                    ask_store(std::make_shared<device_store<host_device>>(
                        host(), device_store_options{.chunk_bytes = chunk, .keep_idle = keep}));
        }
    }

    TEST_CASE("in options") {
        using std::chrono::nanoseconds;
        for (std::size_t const n : {std::size_t{0}, std::size_t{1}, top / 2, top}) {
            CAPTURE(n);
            ask_store(std::make_shared<mmap_store>(std::filesystem::temp_directory_path(),
                                                   mmap_options{.keep_warm = n, .address_space = n}));
        }
        for (nanoseconds const t : {nanoseconds::min(), nanoseconds(-1), nanoseconds(0), nanoseconds::max()}) {
            CAPTURE(t.count());
            ask_store(std::make_shared<heap_store>(heap_options{.decay = t}));
            registry         r({.decay = t});
            accounting const books(r);
            batch_scope      b(r);
            CHECK(*b.make<int>(7) == 7);
            batch_scope timed(r, {.timeout = t});
            auto const  h = timed.try_make<int>(7);
            CHECK(h.has_value() == (t.count() > 0));
        }
        for (std::size_t const soft : nasty_sizes())
            for (std::size_t const hard : {std::size_t{0}, std::size_t{1} << 20, top - 1, top}) {
                registry::global();
                batch_scope b({.limits = {.soft = soft, .hard = hard}});
                CAPTURE(soft);
                CAPTURE(hard);
                CHECK(b.try_make<char[]>(1000).has_value() == (hard >= 1000));
                CHECK(b.try_make<char[]>(top).error() != std::error_code());
                CHECK(b.try_make_buffer<char>(top).error() != std::error_code());
                CHECK(b.usage().bytes <= 1000);
            }
    }
}

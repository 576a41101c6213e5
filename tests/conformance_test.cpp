// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// The suite accepts what is right, and nothing that is wrong in any one of the things that it checks.

#include <cstddef>
#include <memory>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <doctest/doctest.h>

#include <tenure/store/adaptor.hpp>
#include <tenure/store/conformance.hpp>
#include <tenure/testing/faulty_store.hpp>

#include "stores/broken_stores.hpp"
#include "stores/plain_store.hpp"

namespace shop {

/// The least that a store must do: it does not even have a name.
template <class Size>
class nameless_store {
public:
    static constexpr tenure::store_traits traits{};

    tenure::result<tenure::block> allocate(std::size_t bytes, std::size_t alignment) {
        return all_.allocate(bytes, alignment);
    }
    tenure::result<void> deallocate(std::span<tenure::block const> many) noexcept { return all_.deallocate(many); }
    tenure::result<void> read(tenure::block b, std::size_t at, std::span<std::byte> out) {
        return all_.read(b, at, out);
    }
    tenure::result<void> write(tenure::block b, std::size_t at, std::span<std::byte const> in) {
        return all_.write(b, at, in);
    }
    tenure::store_usage usage() const noexcept { return all_.usage(); }

private:
    plain_store<> all_;
};
static_assert(!tenure::described<nameless_store<int>>);

}  // namespace shop

namespace {

constexpr tenure::conformance_options less{.max_bytes = 1 << 20, .free_count = 2'000, .threads = 3, .steps = 80};
constexpr tenure::conformance_options amount = TENURE_SANITIZED ? less : tenure::conformance_options{};

void check_ok(tenure::conformance_report const& r) {
    CAPTURE(r.to_text());
    CHECK(r.ok());
}

/// Opens the same disk again.
struct open_again {
    template <class S>
    std::shared_ptr<S> operator()(std::shared_ptr<S> s) const {
        auto const disk = s->disk();
        s.reset();
        return std::make_shared<S>(disk);
    }
};

template <class S>
tenure::conformance_report report_on() {
    constexpr tenure::conformance_options little{
        .max_bytes = 100'000, .free_count = 2'000, .threads = 2, .steps = TENURE_SANITIZED ? 140 : 200};
    auto const make = [] { return std::make_shared<broken::one_at_a_time<S>>(); };
    if constexpr (std::is_base_of_v<broken::on_disk, S>) return tenure::check_store(make, open_again{}, little);
    else return tenure::check_store(make, little);
}

/// A broken store, and the check that must fail.
struct expected {
    char const* name;
    char const* check;
    tenure::conformance_report (*report)();
};
#define BROKEN(store, check) \
    expected { #store, check, &report_on<broken::store> }

expected const all_broken[] = {
    BROKEN(cuts_long_writes, "sizes"),
    BROKEN(gives_id_zero, "sizes"),
    BROKEN(counts_no_empty_blocks, "zero bytes"),
    BROKEN(has_one_empty_block, "zero bytes"),
    BROKEN(ignores_alignment, "alignment"),
    BROKEN(takes_any_alignment, "bad alignment"),
    BROKEN(leaks_when_refusing, "bad alignment"),
    BROKEN(leaks_when_refusing, "absurd sizes"),
    BROKEN(wraps_absurd_sizes, "absurd sizes"),
    BROKEN(narrows_alignments, "absurd alignments"),
    BROKEN(reuses_ids, "ids"),
    BROKEN(counts_rounded_bytes, "usage"),
    BROKEN(counts_writes, "usage"),
    BROKEN(overruns_capacity, "capacity"),
    BROKEN(full_for_ever, "capacity"),
    BROKEN(full_of_other_errors, "capacity"),
    BROKEN(writes_at_the_start, "ranges"),
    BROKEN(fills_whole_words, "ranges"),
    BROKEN(overlaps, "blocks apart"),
    BROKEN(reads_what_there_is<false>, "read out of range"),
    BROKEN(reads_what_there_is<true>, "read out of range"),
    BROKEN(adds_before_it_compares, "read out of range"),
    BROKEN(writes_what_fits<false>, "write out of range"),
    BROKEN(writes_what_fits<true>, "write out of range"),
    BROKEN(adds_before_it_compares, "write out of range"),
    BROKEN(reads_the_dead, "freed"),
    BROKEN(keeps_counting, "freed"),
    BROKEN(frees_twice, "double free"),
    BROKEN(counts_twice, "double free"),
    BROKEN(forgives_strangers, "foreign block"),
    BROKEN(sees_half_the_id, "made-up block"),
    BROKEN(ignores_bytes, "wrong bytes"),
    BROKEN(refuses_nothing, "free none"),
    BROKEN(frees_a_thousand, "free many"),
    BROKEN(forgets_one_of_many, "free many"),
    BROKEN(stops_at_the_dead, "free with a dead block"),
    BROKEN(frees_all_or_none, "free with a dead block"),
    BROKEN(hides_the_dead, "free with a dead block"),
    BROKEN(looks_before_it_frees, "free twice in a call"),
    BROKEN(is_content_with_the_dead, "free again"),
    BROKEN(drops_a_write, "one thread"),
    BROKEN(counts_on_one_thread, "many threads"),
    BROKEN(frees_on_one_thread, "many threads"),
    BROKEN(lets_only_the_writer_read, "many readers"),
    BROKEN(has_null_for_zero, "address"),
    BROKEN(moves_blocks, "address"),
    BROKEN(overlaps, "address"),
    BROKEN(shows_a_copy, "address and contents"),
    BROKEN(is_shared_memory, "anonymous memory"),
    BROKEN(copies_from_the_start, "copy"),
    BROKEN(copies_no_block_to_itself, "copy within a block"),
    BROKEN(copies_what_fits, "copy out of range"),
    BROKEN(copies_to_the_dead, "freed"),
    BROKEN(has_one_batch, "batches"),
    BROKEN(has_small_batches, "batches"),
    BROKEN(transfers_nothing, "transfer"),
    BROKEN(transfers_what_lives, "transfer all or none"),
    BROKEN(ends_a_batch_once, "end a batch again"),
    BROKEN(finds_in_any_case, "keep"),
    BROKEN(first_keeper_wins, "keep replaces"),
    BROKEN(finds_the_dead, "free kept"),
    BROKEN(syncs_anything, "sync"),
    BROKEN(is_never_closed, "close"),
    BROKEN(reads_after_close, "close"),
    BROKEN(forgets_what_was_kept, "reopen"),
    BROKEN(keeps_what_it_saw_first, "reopen"),
    BROKEN(keeps_everything, "reopen without the rest"),
    BROKEN(brings_back_the_freed, "reopen without the rest"),
    BROKEN(writes_only_when_closed, "reopen unclosed"),
    BROKEN(throws, "write out of range"),
    BROKEN(throws_a_number, "write out of range"),
};

}  // namespace

TEST_CASE("every broken store is caught, by the check that is there for it") {
    for (expected const& e : all_broken) {
        INFO("broken: " << e.name);
        tenure::conformance_report const r = e.report();
        CAPTURE(r.to_text());
        CHECK_FALSE(r.ok());
        tenure::conformance_check const* const c = r.find(e.check);
        REQUIRE(c);
        CHECK(c->outcome == tenure::check_outcome::failed);
        CHECK_FALSE(c->reason.empty());
    }
}

TEST_CASE("a report says what was done, what came of it, and with which figures") {
    auto const text = report_on<broken::writes_what_fits<false>>().to_text();
    CAPTURE(text);
    CHECK(text.starts_with("plain store: "));
    CHECK(text.find(
              "\n  FAILED   write out of range       write beyond the end: success, not \"out of range\"; offset = "
              "100; size = 1 (contents.hpp:") != text.npos);
    CHECK(text.find("\n  skipped  address                  traits.addressable is not set\n") != text.npos);
    CHECK(text.find("\n  passed   bad alignment\n") != text.npos);
}

TEST_CASE("there is a broken store for every check") {
    std::set<std::string> proved{"asynchronous"};  // which checks nothing: it is always skipped
    for (expected const& e : all_broken) proved.insert(e.check);
    std::set<std::string> all;
    for (auto const& c : report_on<plain_store<>>().checks) all.insert(c.name);
    for (auto const& name : all) {
        CAPTURE(name);
        CHECK(proved.contains(name));
    }
}

TEST_CASE("a plain store passes") {
    check_ok(tenure::check_store([] { return std::make_shared<plain_store<>>(); }, amount));
}

TEST_CASE("a store without a name is called by its type, as C++ spells it") {
    auto const make = [] { return std::make_shared<shop::nameless_store<int>>(); };
    auto const r    = tenure::check_store(make, less);
    check_ok(r);
    CHECK(r.store == "shop::nameless_store<int>");
    CHECK(r.to_text().starts_with("shop::nameless_store<int>: "));
    CHECK(tenure::any_store(make()).describe() == r.store);
    CHECK(tenure::store_adaptor(make()).describe() == r.store);
    CHECK(tenure::faulty_store(make()).describe() == "faulty " + r.store);
}

TEST_CASE("one of limited capacity passes") {
    check_ok(tenure::check_store([] { return std::make_shared<plain_store<>>(1 << 20); }, amount));
}

TEST_CASE("one in private anonymous memory passes") {
    check_ok(tenure::check_store(
        [] { return std::make_shared<plain_store<{.addressable = true, .anonymous = true}>>(); }, less));
}

TEST_CASE("one with every capability passes") {
    using store = plain_store<{.addressable = true, .durable = true, .copyable = true, .batched = true}>;
    check_ok(tenure::check_store([] { return std::make_shared<store>(std::make_shared<plain_disk>()); },
                                 open_again{}, amount));
}

TEST_CASE("a durable store that is not opened again: those checks are skipped, and the report says so") {
    auto const r = tenure::check_store(
        [] { return std::make_shared<plain_store<{.durable = true}>>(std::make_shared<plain_disk>()); }, less);
    CHECK(r.ok());
    for (char const* name : {"reopen", "reopen without the rest", "reopen unclosed"})
        CHECK(r.find(name)->outcome == tenure::check_outcome::skipped);
    CHECK(r.to_text().find("check_store was given no way to open a store again") != std::string::npos);
}

TEST_CASE("a store behind an any_store is one without capabilities") {
    using store = plain_store<{.addressable = true}>;
    auto const r =
        tenure::check_store([] { return std::make_shared<tenure::any_store>(std::make_shared<store>()); }, less);
    CHECK(r.ok());
    CHECK(r.find("address")->reason == "traits.addressable is not set");
}

TEST_CASE("a store that cannot be made again fails the checks, and does not end the suite") {
    int        made = 0;
    auto const r    = tenure::check_store(
        [&] {
            if (++made > 3) throw std::runtime_error("no more");
            return std::make_shared<plain_store<>>();
        },
        less);
    CHECK_FALSE(r.ok());
    CHECK(r.find("ids")->reason == "an exception: no more");
    CHECK_THROWS_WITH(
        tenure::check_store([]() -> std::shared_ptr<plain_store<>> { throw std::runtime_error("none"); }), "none");
}

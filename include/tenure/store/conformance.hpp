// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <concepts>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <tenure/store/conformance/allocating.hpp>
#include <tenure/store/conformance/batched.hpp>
#include <tenure/store/conformance/concurrent.hpp>
#include <tenure/store/conformance/contents.hpp>
#include <tenure/store/conformance/durable.hpp>
#include <tenure/store/conformance/freeing.hpp>
#include <tenure/store/conformance/report.hpp>
#include <tenure/store/conformance/subject.hpp>

namespace tenure {

namespace detail::conformance {

/// A check. It is skipped without the capability that it needs.
struct entry {
    char const* name;
    void (*run)(subject&);
    bool store_traits::* needs   = nullptr;
    char const*          missing = nullptr;
};

inline void left_to_others(subject&) { throw skipped_check{"asynchronous stores are checked by their own tests"}; }

inline constexpr char const *no_address = "traits.addressable is not set",
                            *no_durable = "traits.durable is not set", *no_copy = "traits.copyable is not set",
                            *no_batch = "traits.batched is not set";

inline constexpr entry everything[] = {
    {"sizes", &sizes},
    {"zero bytes", &zero_bytes},
    {"alignment", &alignments},
    {"bad alignment", &bad_alignments},
    {"absurd sizes", &absurd_sizes},
    {"absurd alignments", &absurd_alignments},
    {"ids", &ids},
    {"usage", &usage},
    {"capacity", &capacity},
    {"ranges", &ranges},
    {"blocks apart", &blocks_apart},
    {"read out of range", &reads_out_of_range},
    {"write out of range", &writes_out_of_range},
    {"freed", &freed},
    {"double free", &double_free},
    {"foreign block", &foreign_blocks},
    {"made-up block", &made_up_blocks},
    {"wrong bytes", &wrong_bytes},
    {"free none", &free_nothing},
    {"free many", &free_many},
    {"free with a dead block", &free_with_dead},
    {"free twice in a call", &free_twice_in_a_call},
    {"free again", &free_again},
    {"one thread", &one_thread},
    {"many threads", &many_threads},
    {"many readers", &many_readers},
    {"address", &addresses, &store_traits::addressable, no_address},
    {"address and contents", &address_and_contents, &store_traits::addressable, no_address},
    {"anonymous memory", &anonymous_memory, &store_traits::anonymous, "traits.anonymous is not set"},
    {"copy", &copies, &store_traits::copyable, no_copy},
    {"copy within a block", &copies_within_a_block, &store_traits::copyable, no_copy},
    {"copy out of range", &copies_out_of_range, &store_traits::copyable, no_copy},
    {"keep", &keeps, &store_traits::durable, no_durable},
    {"keep replaces", &keep_replaces, &store_traits::durable, no_durable},
    {"free kept", &free_kept, &store_traits::durable, no_durable},
    {"sync", &syncs, &store_traits::durable, no_durable},
    {"close", &closes, &store_traits::durable, no_durable},
    {"reopen", &reopened, &store_traits::durable, no_durable},
    {"reopen without the rest", &reopened_without_the_rest, &store_traits::durable, no_durable},
    {"reopen unclosed", &reopened_unclosed, &store_traits::durable, no_durable},
    {"batches", &batches, &store_traits::batched, no_batch},
    {"transfer", &transfers, &store_traits::batched, no_batch},
    {"transfer all or none", &transfers_whole, &store_traits::batched, no_batch},
    {"end a batch again", &ends_again, &store_traits::batched, no_batch},
    {"asynchronous", &left_to_others, &store_traits::asynchronous, "traits.asynchronous is not set"},
};

inline conformance_check run(entry const& e, store_traits const& can, subject::maker const& make,
                             subject::reopener const& reopen, conformance_options const& options) {
    if (e.needs && !(can.*e.needs)) return {e.name, check_outcome::skipped, e.missing};
    try {
        subject s(make, reopen, options);
        e.run(s);
        if (!s.leaves_blocks) s.expect_usage(0, 0);
        return {e.name, check_outcome::passed, std::move(s.note)};
    } catch (skipped_check& s) {
        return {e.name, check_outcome::skipped, std::move(s.reason)};
    } catch (failed_check& f) {
        return {e.name, check_outcome::failed, std::move(f.reason)};
    } catch (std::exception const& x) {
        return {e.name, check_outcome::failed, std::string("an exception: ") + x.what()};
    } catch (...) {
        return {e.name, check_outcome::failed, "an exception that is no std::exception"};
    }
}

template <class Make>
using made_by = typename std::invoke_result_t<Make&>::element_type;

template <class Make>
conformance_report check(Make& make, subject::reopener const& reopen, conformance_options const& options) {
    using S = made_by<Make>;
    static_assert(is_whole_store<S>());
    subject::maker const fresh = [&]() -> any_store {
        if constexpr (std::is_same_v<S, any_store>) return *make();
        else return std::shared_ptr<S>(make());
    };
    conformance_report r;
    r.store = fresh().describe();
    for (entry const& e : everything) r.checks.push_back(run(e, S::traits, fresh, reopen, options));
    return r;
}

}  // namespace detail::conformance

/// Checks whether a store keeps the contract of store/concept.hpp, item by item, for any test framework. `make()`
/// returns a std::shared_ptr to a fresh store each time: empty, with a medium of its own. Never throws for what
/// the store does; what the first make() throws gets through. Deterministic except for the scheduling of threads.
/// Cost: seconds, and a few times options.max_bytes of memory.
template <class Make>
    requires std::invocable<Make&>
conformance_report check_store(Make make, conformance_options options = {}) {
    return detail::conformance::check(make, {}, options);
}

/// Checks a durable store as check_store(make, options) does, and also opens it again. `reopen(s)` gets a
/// std::shared_ptr<S> to a store that may be closed, and to which there is no other pointer; it releases the store
/// and opens anew what that stored.
template <class Make, class Reopen>
    requires std::invocable<Make&> && std::invocable<Reopen&, std::shared_ptr<detail::conformance::made_by<Make>>>
conformance_report check_store(Make make, Reopen reopen, conformance_options options = {}) {
    using S = detail::conformance::made_by<Make>;
    static_assert(S::traits.durable, "only a durable store can be opened again");
    auto const again = [&](any_store old) -> any_store {
        S* const s = old.get_if<S>();
        // The pointer passed to reopen() owns the last any_store of the old store, and nothing else.
        return std::shared_ptr<S>(reopen(std::shared_ptr<S>(std::make_shared<any_store>(std::move(old)), s)));
    };
    return detail::conformance::check(make, again, options);
}

}  // namespace tenure

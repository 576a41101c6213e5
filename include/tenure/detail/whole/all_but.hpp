// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <source_location>

#include <tenure/detail/life/closing.hpp>
#include <tenure/detail/life/exclusive_claim.hpp>
#include <tenure/detail/life/keeping.hpp>
#include <tenure/detail/life/opening.hpp>
#include <tenure/detail/whole/giving_all.hpp>
#include <tenure/error.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Calls for all that a batch owns but for some objects: all of it goes to a batch below, which keeps these objects
/// back to its parent. What is left there is freed with it, or given on.

/// A batch directly below one whose guard this thread has. It ends with this, or, after leave(), with its parent.
class batch_below {
public:
    explicit batch_below(batch_record& b) noexcept {
        auto const open = [&] {
            registry_core& r = *b.registry.load(std::memory_order_relaxed);
            opened_          = open_batch(r, &b, nullptr, true, b.where.load(std::memory_order_relaxed));
        };
        auto const refused = [&](error const&) { why_ = {b.closed() ? b.why_closed() : errc::batch_in_use, &b}; };
        if (!memory_lasts([&] { run_or<error>(open, refused); }))
            why_ = {errc::memory_full, &b, sizeof(batch_record)};
    }
    ~batch_below() {
        if (!opened_.record) return;
        if (left_) drop_guard(*opened_.record);
        else close_guard(*opened_.record, opened_.id);
    }
    batch_below(batch_below const&)            = delete;
    batch_below& operator=(batch_below const&) = delete;

    /// Why it could not be opened, or none.
    failure const& why() const noexcept { return why_; }

    batch_record& record() const noexcept { return *opened_.record; }
    std::uint64_t id() const noexcept { return opened_.id; }

    void leave() noexcept { left_ = true; }

private:
    opened_batch opened_;
    failure      why_;
    bool         left_ = false;
};

/// Gives back what was set aside, unless it is dismissed. Memory may be full even for that: then what is left stays
/// in the batch below, and is freed with the one that it came from.
class giving_back {
public:
    giving_back(batch_below& aside, batch_record& to, exclusive_claim const& claim) noexcept
        : aside_(aside), to_(to), claim_(claim) {}
    ~giving_back() {
        if (!dismissed_ && giving_all(aside_.record(), to_, claim_).give()) aside_.leave();
    }
    giving_back(giving_back const&)            = delete;
    giving_back& operator=(giving_back const&) = delete;

    void dismiss() noexcept { dismissed_ = true; }

private:
    batch_below&           aside_;
    batch_record&          to_;
    exclusive_claim const& claim_;
    bool                   dismissed_ = false;
};

/// Keeps a batch's books while it gives all away and gets some of it back. Nobody else is in the batch.
class round_trip {
public:
    explicit round_trip(batch_record& b) noexcept : batch_(b) {}
    ~round_trip() {
        ledger&             books   = batch_.rest.books;
        std::uint64_t const objects = books.received.objects() - objects_;
        std::uint64_t const bytes   = books.received.bytes() - bytes_;
        if (anew_) {
            for_lanes(batch_, [](lane& l) {
                forget_memory(l);
                forget_kept(l);
            });
            books.forget();
            books.received.add(objects, bytes, batch_.is_here());
        } else {
            for (tally* t : {&books.given, &books.received}) t->add(0 - objects, 0 - bytes, batch_.is_here());
            books.noted.store(0, std::memory_order_relaxed);
        }
    }
    round_trip(round_trip const&)            = delete;
    round_trip& operator=(round_trip const&) = delete;

    /// The books begin anew, with what came back. Otherwise that counts as if it had stayed.
    void begin_anew() noexcept { anew_ = true; }

private:
    batch_record&       batch_;
    std::uint64_t const objects_ = batch_.rest.books.received.objects();
    std::uint64_t const bytes_   = batch_.rest.books.received.bytes();
    bool                anew_    = false;
};

/// Frees all that a batch of this thread owns but what `staying` names; or, if `to` is not null, gives it to that
/// batch, which is held. All or nothing. Errors: batch_in_use as of clear_batch(), what over_because() says,
/// not_restorable, memory_full, those of giving_all::give() and keeping::commit(). Throws what `staying` throws.
inline failure all_but(batch_record& b, std::uint64_t id, all_handles staying, batch_record* to) {
    close_those_elsewhere();
    if (has_open_children(b)) return {errc::batch_in_use, &b};
    if (has_checkpoint(b)) return {errc::not_restorable, &b};
    if (to && has_checkpoint(*to)) return {errc::not_restorable, to};
    batch_below below(b);
    if (below.why()) return below.why();
    batch_record&         rest = below.record();
    exclusive_claim const claim(b, id, batch_flags::closed);
    if (claim.why() != errc{}) return {.code = claim.why(), .id = id};
    exclusive_claim const claim_below(rest, below.id(), batch_flags::over);
    if (claim_below.why() != errc{}) return {.code = claim_below.why(), .id = id};

    round_trip counted(b);
    failure    why = giving_all(b, rest, claim).give();
    if (!why) {
        giving_back undo(below, b, claim_below);
        {
            keeping list(rest.primary, b, batch_flags::over);
            staying(list);
            why = list.commit();
        }
        if (!why && to) why = giving_all(rest, *to, claim_below).give();
        if (!why) undo.dismiss();
    }
    if (!why && !to) counted.begin_anew();
    if (why.batch == &rest) why.batch = &b;
    return why;
}

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include <tenure/detail/paging/mapping_budget.hpp>
#include <tenure/detail/paging/page_moves.hpp>
#include <tenure/detail/paging/paged_ranges.hpp>
#include <tenure/detail/unit/write_fault.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Moves one batch's memory out: prepares, writes, and gives up what was written. Each step may fail; everything
/// is then in memory as before. Memory that went out earlier and came back is written only where it changed. The
/// caller has made the paging state `moving` and holds the batch, so what only this batch owns stays so.
class page_out_of {
public:
    page_out_of(page_space& space, batch_record& b, paged_batch& p, bool asked)
        : space_(space), batch_(b), paged_(p), id_(b.id.load(std::memory_order_relaxed)), asked_(asked) {}
    ~page_out_of() {
        bool any = false;
        for (paged_range const& r : fresh_) {
            if (!r.where.bytes) continue;
            space_.release(r.where);
            any = true;
        }
        // A failed page-out keeps no space. This helps no other page-out, so `changes` stays.
        if (any) space_.opened()->trim(0);
    }
    page_out_of(page_out_of const&)            = delete;
    page_out_of& operator=(page_out_of const&) = delete;

    std::error_code run() {
        auto const full   = [](std::bad_alloc const&) { return make_error_code(errc::memory_full); };
        auto const failed = [](error const& e) { return e.code(); };
        return run_or<error>([&] { return run_or<std::bad_alloc>([&] { return go_out(); }, full); }, failed);
    }

private:
    std::error_code go_out() {
        scratch_file& file = space_.file();
        drop_strangers();
        fresh_ = ranges_of(batch_, paged_.ranges);
        if (!mappings.admit(2 * stretches_to_map(), asked_)) return make_error_code(errc::mappings_full);
        paged_.ranges.reserve(paged_.ranges.size() + fresh_.size());
        for (paged_range& r : fresh_) {
            result<extent_in_file> const where = file.reserve(r.bytes);
            if (!where) return where.error();
            r.where = *where;
        }
        paged_.bytes = 0;
        if (fresh_.empty() && paged_.ranges.empty()) return {};
        write_fault const moving(first(), last());
        if (std::error_code const why = write()) {
            unprotect_all(fresh_);
            unprotect_all(paged_.ranges);
            return why;
        }
        return give_up();
    }

    /// Returns how many stretches will be mapped. Each is cut out of a mapping, of which two parts are left.
    std::size_t stretches_to_map() const noexcept {
        auto const copied = [](paged_range const& r) { return r.copied; };
        return fresh_.size() +
               static_cast<std::size_t>(std::count_if(paged_.ranges.begin(), paged_.ranges.end(), copied));
    }

    bool is_still_ours(place p, bool copied) const noexcept {
        return (is_filed_by(id_, p) || (copied && is_filed_by(0, p))) && is_all_of(batch_, p);
    }

    /// Drops memory that went out with this batch and is no longer its own, and frees its place in the file.
    /// Throws std::bad_alloc.
    void drop_strangers() {
        std::vector<paged_range> ours, others;
        for (paged_range const& r : paged_.ranges) {
            auto const is_ours = [&](place p) { return is_still_ours(p, r.copied); };
            for_stretches(r, is_ours,
                          [&](paged_range const& s, bool mine) { (mine ? ours : others).push_back(s); });
        }
        if (others.empty()) return;
        if (!space_.opened()->split(ours.size() + others.size() - paged_.ranges.size())) raise(std::bad_alloc());
        paged_.ranges.swap(ours);
        for (paged_range const& r : others)
            if (part_from_file(r, id_)) space_.release(r.where);
        space_.settle();
    }

    std::uintptr_t first() const noexcept {
        std::uintptr_t const a = fresh_.empty() ? ~std::uintptr_t{0} : fresh_.front().begin;
        return paged_.ranges.empty() ? a : std::min(a, paged_.ranges.front().begin);
    }
    std::uintptr_t last() const noexcept {
        std::uintptr_t const a = fresh_.empty() ? 0 : fresh_.back().end();
        return paged_.ranges.empty() ? a : std::max(a, paged_.ranges.back().end());
    }

    static bool protect_all(std::vector<paged_range> const& ranges, int how) noexcept {
        return std::all_of(ranges.begin(), ranges.end(),
                           [&](paged_range const& r) { return protect(to_pointer(r.begin), r.bytes, how); });
    }
    static void unprotect_all(std::vector<paged_range> const& ranges) noexcept {
        for (paged_range const& r : ranges) unprotect(to_pointer(r.begin), r.bytes);
    }

    std::error_code write() {
        if (!protect_all(fresh_, PROT_READ) || !protect_all(paged_.ranges, PROT_READ))
            return make_error_code(errc::memory_full);
        std::error_code why;
        std::size_t     changed = 0, fresh = 0;
        for (paged_range const& r : paged_.ranges)
            if ((why =
                     write_pages(space_, r, r.copied ? suspects::those_changed : suspects::those_written, changed)))
                return why;
        std::size_t there = 0;
        for (paged_range const& r : paged_.ranges) there += r.bytes;
        if (there) paged_.changes = changed > there / 2;
        auto const is_mapped = [](place p) { return !is_filed_by(0, p); };
        for (paged_range const& r : fresh_)
            for_stretches(r, is_mapped, [&](paged_range const& s, bool mapped) {
                if (!why) why = write_pages(space_, s, mapped ? suspects::all : suspects::those_written, fresh);
            });
        return why;
    }

    /// Gives up the memory, of which everything is in the file. Errors: memory_full.
    std::error_code give_up() noexcept {
        std::error_code why;
        for (paged_range& r : paged_.ranges) {
            if (!r.copied && drop_pages(to_pointer(r.begin), r.bytes)) continue;
            if (r.copied && map_again(r)) continue;
            why = make_error_code(errc::memory_full);
        }
        std::size_t const known = paged_.ranges.size();
        for (paged_range& r : fresh_) {
            if (map_file_at(to_pointer(r.begin), r.bytes, space_.opened()->fd(), r.where.offset)) {
                set_filed(r, id_);
                paged_.ranges.push_back(r);
                r.where = {};
            } else {
                why = make_error_code(errc::memory_full);
                unprotect(to_pointer(r.begin), r.bytes);
            }
        }
        auto const by_address = [](auto const& x, auto const& y) { return x.begin < y.begin; };
        auto const middle     = paged_.ranges.begin() + static_cast<std::ptrdiff_t>(known);
        std::for_each(paged_.ranges.begin(), middle,
                      [](auto const& r) { unprotect(to_pointer(r.begin), r.bytes); });
        std::sort(paged_.ranges.begin(), paged_.ranges.end(), by_address);
        for (paged_range const& r : paged_.ranges) paged_.bytes += r.bytes;
        if (!why && space_.options.access == paged_access::faults && !protect_all(paged_.ranges, PROT_NONE))
            why = make_error_code(errc::memory_full);  // a touch would go unnoticed, so the batch must not be out
        if (why && space_.options.access == paged_access::faults) unprotect_all(paged_.ranges);
        return why;
    }

    bool map_again(paged_range& r) noexcept {
        if (!map_file_at(to_pointer(r.begin), r.bytes, space_.opened()->fd(), r.where.offset)) return false;
        set_filed(r, id_);
        r.copied = false;
        return true;
    }

    page_space&              space_;
    batch_record&            batch_;
    paged_batch&             paged_;
    std::uint64_t const      id_;
    bool const               asked_;  ///< by the user, for this page-out
    std::vector<paged_range> fresh_;  ///< ranges that are not in the file yet
};

/// Ends the paging of a batch that ends. Memory that only it owns is dropped unread; memory in which others have a
/// share is theirs now. Allocates nothing.
inline void forget_pages(page_space& space, batch_record& b) noexcept {
    std::unique_ptr<paged_batch> const paged(std::exchange(b.paged, nullptr));
    std::uint64_t const                id    = b.id.load(std::memory_order_relaxed);
    auto const                         alone = [&](place p) { return is_filed_by(id, p) && is_all_of(b, p); };
    for (paged_range const& r : paged->ranges) {
        bool through = true;
        for_stretches(r, alone, [&](paged_range const& s, bool mine) {
            if (mine) make_anonymous(s);
            else through = part_from_file(s, id) && through;
        });
        if (through) space.release(r.where);  // else the file keeps that place for good
    }
    if (!paged->ranges.empty()) space.settle();
}

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include <tenure/detail/objects/unit_shares.hpp>
#include <tenure/detail/paging/mapping_budget.hpp>
#include <tenure/detail/paging/page_moves.hpp>
#include <tenure/detail/unit/write_fault.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// Returns, by address, the batch's runs and the units of other batches in which it owns something. Nobody may be
/// inside the batch.
inline std::vector<paged_range> runs_of(batch_record& b) {
    std::vector<paged_range> out;
    for (std::size_t n = 64; n > out.capacity();) {
        out.clear();
        out.reserve(n);
        n              = 0;
        auto const add = [&](std::uintptr_t begin, std::size_t units) {
            if (++n <= out.capacity()) out.push_back({begin, units << unit_shift, {}});
        };
        std::scoped_lock const guard(b.lock);
        for (unit const* u = b.primary.runs; u; u = u->next) add(u->address, u->length);
        for (lane const* l = b.lanes; l; l = l->next)
            for (unit const* u = l->runs; u; u = u->next) add(u->address, u->length);
        for (unit const* u = b.large; u; u = u->next) add(u->address, u->length);
        for (share const* s = b.shares; s; s = s->next_owned) add(s->base, 1);
    }
    std::ranges::sort(out, {}, &paged_range::begin);
    return out;
}

/// Returns the memory that goes out with a batch: every unit of its own store in which no other batch owns
/// anything, neighbours joined, without what lies in `known`, which is ordered. That store stays as long as the
/// batch; another may go with the last object that the batch received there.
inline std::vector<paged_range> ranges_of(batch_record& b, std::vector<paged_range> const& known) {
    std::vector<paged_range> out;
    auto                     next = known.begin();
    std::uintptr_t           done = 0;  // a unit may come twice: as part of a run, and for a share in it
    for (paged_range const& run : runs_of(b)) {
        for (std::uintptr_t a = std::max(run.begin, done); a < run.end(); a += unit_bytes) {
            done = a + unit_bytes;
            while (next != known.end() && next->end() <= a) ++next;
            if (next != known.end() && next->begin <= a) continue;
            place const p = place_at(a);
            if (p.where->from != b.slabs || !is_all_of(b, p)) continue;
            constexpr std::size_t most = std::size_t{1} << 30;  // each is one system call, one piece of the file
            if (!out.empty() && out.back().end() == a && out.back().bytes < most) out.back().bytes += unit_bytes;
            else out.push_back({a, unit_bytes, {}});
        }
    }
    return out;
}

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
        return fresh_.size() + static_cast<std::size_t>(std::ranges::count_if(paged_.ranges, &paged_range::copied));
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

    static bool protect_all(std::span<paged_range const> ranges, int how) noexcept {
        return std::ranges::all_of(
            ranges, [&](paged_range const& r) { return protect(to_pointer(r.begin), r.bytes, how); });
    }
    static void unprotect_all(std::span<paged_range const> ranges) noexcept {
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
        unprotect_all(std::span(paged_.ranges).first(known));
        std::ranges::sort(paged_.ranges, {}, &paged_range::begin);
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
inline void registry_paging::drop_pages(batch_record& b) noexcept {
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

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <system_error>
#include <vector>

#include <tenure/detail/page_moves.hpp>
#include <tenure/detail/paged_ranges.hpp>

namespace tenure::detail {

/// One batch's memory on its way out, in three steps: prepare, write, and give up what was written. Each may fail;
/// then everything is in memory as before. What went out earlier, and came back since, is written only where it
/// changed.
class page_out_of {
public:
    page_out_of(page_space& space, batch_record& b, paged_batch& p) : space_(space), batch_(b), paged_(p) {}
    ~page_out_of() {
        for (paged_range const& r : fresh_)
            if (r.where.bytes) space_.release(r.where);
    }
    page_out_of(page_out_of const&)            = delete;
    page_out_of& operator=(page_out_of const&) = delete;

    std::error_code run() try {
        scratch_file& file = space_.file();
        drop_strangers();
        fresh_ = ranges_of(batch_, paged_.ranges);
        paged_.ranges.reserve(paged_.ranges.size() + fresh_.size());
        for (paged_range& r : fresh_) {
            result<extent_in_file> const where = file.reserve(r.bytes);
            if (!where) return where.error();
            r.where = *where;
        }
        if (fresh_.empty() && paged_.ranges.empty()) return {};
        transit const moving(first(), last());
        if (std::error_code const why = write()) {
            unprotect();
            return why;
        }
        return give_up();
    } catch (error const& e) {
        return e.code();
    } catch (std::bad_alloc const&) {
        return make_error_code(errc::memory_full);
    }

private:
    /// Memory that went out with this batch and is another's by now, or nobody's.
    void drop_strangers() {
        std::erase_if(paged_.ranges, [&](paged_range const& r) {
            if (is_all_of(batch_, r)) return false;
            if (bring_back(r)) space_.release(r.where);
            return true;  // where the system refused, the file keeps that place for good
        });
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
        bool all = true;
        for (paged_range const& r : ranges) all = protect(to_pointer(r.begin), r.bytes, how) && all;
        return all;
    }

    void unprotect() noexcept {
        protect_all(fresh_, PROT_READ | PROT_WRITE);
        protect_all(paged_.ranges, PROT_READ | PROT_WRITE);
    }

    std::error_code write() {
        if (!protect_all(fresh_, PROT_READ) || !protect_all(paged_.ranges, PROT_READ))
            return make_error_code(errc::memory_full);
        for (paged_range const& r : paged_.ranges)
            if (auto const why = write_pages(space_, r, false)) return why;
        for (paged_range const& r : fresh_) {
            bool filed = false;
            for_units_of(r, [&](place p) { filed = filed || p.u->filed.load(std::memory_order_relaxed); });
            if (auto const why = write_pages(space_, r, filed)) return why;
        }
        return {};
    }

    /// All is in the file.
    std::error_code give_up() noexcept {
        int const       after = space_.options.access == paged_access::faults ? PROT_NONE : PROT_READ | PROT_WRITE;
        std::error_code why;
        for (paged_range const& r : paged_.ranges)
            if (!drop_pages(to_pointer(r.begin), r.bytes)) why = make_error_code(errc::memory_full);
        for (paged_range& r : fresh_) {
            if (!map_file_at(to_pointer(r.begin), r.bytes, space_.opened()->fd(), r.where.offset)) {
                why = make_error_code(errc::memory_full);
                continue;
            }
            for_units_of(r, [](place p) { p.u->filed.store(true, std::memory_order_relaxed); });
            paged_.ranges.push_back(r);
            r.where = {};
        }
        std::sort(paged_.ranges.begin(), paged_.ranges.end(),
                  [](auto const& x, auto const& y) { return x.begin < y.begin; });
        paged_.bytes = 0;
        for (paged_range const& r : paged_.ranges) paged_.bytes += r.bytes;
        if (why) unprotect();
        else protect_all(paged_.ranges, after);
        return why;
    }

    page_space&              space_;
    batch_record&            batch_;
    paged_batch&             paged_;
    std::vector<paged_range> fresh_;  ///< not in the file yet
};

/// At the end of the batch: what is its alone is dropped without being read, and what others have a share in is
/// theirs now. Allocates nothing.
inline void forget_pages(page_space& space, batch_record& b) noexcept {
    std::unique_ptr<paged_batch> const paged(b.paged);
    b.paged = nullptr;
    for (paged_range const& r : paged->ranges)
        if (is_all_of(b, r) ? make_anonymous(r) : bring_back(r)) space.release(r.where);
}

}  // namespace tenure::detail

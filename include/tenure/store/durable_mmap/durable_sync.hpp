// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <mutex>
#include <span>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <tenure/detail/space/file_space.hpp>
#include <tenure/detail/space/file_window.hpp>
#include <tenure/store/durable_mmap/durable_files.hpp>
#include <tenure/store/durable_mmap/durable_index.hpp>

namespace tenure::detail {

/// Brings blocks and names to stable storage, in this order:
///
///  1. Fresh blocks are sealed: their addresses show the file copy-on-write, so that later writes change memory
///     and not what is about to be promised.
///  2. Everything is hashed. A sealed block that has changed is written to a new extent.
///  3. fdatasync() of the data file: contents are there before anything names them.
///  4. One transaction of the catalog, with its own sync: all names of the call, or none.
///  5. Only now are extents given up that no name has any more.
///
/// So a crash at any point leaves the last synced version whole and under its name. One call at a time.
class durable_syncer {
public:
    durable_syncer(durable_files& f, file_window& w, file_space& s, durable_index& i) noexcept
        : files_(f), window_(w), space_(s), index_(i) {}
    durable_syncer(durable_syncer const&)            = delete;
    durable_syncer& operator=(durable_syncer const&) = delete;
    ~durable_syncer() {
        for (durable_piece* const p : vacated_) index_.drop(p);
    }

    /// Syncs the blocks that `pick(round)` adds under the index's mutex, and all removals. An error of
    /// `pick` ends the call.
    template <class Pick>
    std::error_code commit(Pick pick) {
        // After a failed fdatasync() the kernel may take lost pages for written ones; after a failed commit the
        // contents of the disk are unknown. No later promise would be worth anything.
        if (failed_) return failed_;
        if (auto const e = files_.still_named()) return e;
        durable_round r(index_);
        {
            std::unique_lock lock(index_.mutex);
            if (std::error_code const e = pick(r)) return e;
            r.add_removals();
            r.still(lock);
        }
        if (std::error_code const e = seal(r)) return failure(e);
        for (auto& j : r.jobs)
            if (std::error_code const e = settle(j)) return failure(e);
        {
            std::scoped_lock const guard(index_.mutex);
            r.let_write();
        }
        catalog_header                    next    = files_.contents.header;
        std::vector<catalog_change> const changes = list_changes(r, next);
        if (changes.empty() && !r.unnamed) return {};
        // A full disk has here lost blocks that were reserved: a retry would not help.
        if (::fdatasync(files_.data.get()) != 0) return failed_ = system_code(errno);
        if (changes.empty()) return {};

        if (std::error_code const e = files_.catalog.commit(changes, next)) return failure(e);
        files_.contents.header = next;
        files_.settled         = true;
        files_.write_header(next.sequence);
        take_over(r);
        return {};
    }

    /// Gives up extents that no name has any more, unless there are readers, which may have opened when one did.
    void reclaim() noexcept {
        if (failed_ || !files_.settled) return;
        files_.lock.without_readers([&] {
            for (;;) {
                durable_piece* p = nullptr;
                {
                    std::scoped_lock const guard(index_.mutex);
                    if (vacated_.empty()) break;
                    p = vacated_.back();
                    vacated_.pop_back();
                    p->vacant = p->users > 1;
                }
                if (p->vacant) space_.punch_out(p->where);
                std::scoped_lock const guard(index_.mutex);
                index_.drop(p);
            }
            space_.reclaim([&](extent_in_file const& e) { return window_.share(files_.data.get(), e); });
        });
        space_.settle();
    }

private:
    using job = durable_round::job;

    /// Records an error for all later calls, unless more room can cure it.
    std::error_code failure(std::error_code e) noexcept {
        if (e != errc::store_full && e != errc::memory_full) failed_ = e;
        return e;
    }

    /// Does step 1, in one call for neighbours, and hashes the blocks.
    std::error_code seal(durable_round& r) {
        std::vector<job*> fresh;
        for (job& j : r.jobs)
            if (j.place.state == durable_state::fresh) fresh.push_back(&j);
        std::ranges::sort(fresh, {}, [](job const* j) { return j->place.home->where.offset; });
        for (std::size_t i = 0, end = 0; i < fresh.size(); i = end) {
            extent_in_file all = fresh[i]->place.home->where;
            for (end = i + 1; end < fresh.size() && fresh[end]->place.home->where.offset == all.end(); ++end)
                all.bytes += fresh[end]->place.home->where.bytes;
            if (!window_.copy_on_write(files_.data.get(), all, all.offset)) return io_code(errno);
            start_writing(all);
            window_.populate_read(all);
            std::scoped_lock const guard(index_.mutex);
            for (job* const j : std::span(fresh).subspan(i, end - i)) {
                j->place.home->retires = true;
                j->place.state         = durable_state::sealed;
                j->place.hashed        = false;
            }
        }
        for (job* const j : fresh) {
            j->place.hash   = hash_of(memory(j->place));
            j->place.hashed = true;
            std::scoped_lock const guard(index_.mutex);
            publish(*j);
        }
        return {};
    }

    /// Lets the disk begin during the hashing. A hint: fdatasync() is what counts.
    void start_writing(extent_in_file e) noexcept {
        [[maybe_unused]] int const refused =
            ::sync_file_range(files_.data.get(), static_cast<::off64_t>(e.offset), static_cast<::off64_t>(e.bytes),
                              SYNC_FILE_RANGE_WRITE);
    }

    /// Does step 2: afterwards `stored` has the block's contents, and `hash` is their hash.
    std::error_code settle(job& j) {
        durable_place& p = j.place;
        if (p.state != durable_state::sealed || (p.hashed && !p.exposed && !p.dirty)) return {};
        content_hash const now = hash_of(memory(p));
        if (p.hashed && now == p.hash) {
            std::scoped_lock const guard(index_.mutex);
            p.dirty = false;
            publish(j);
            return {};
        }
        durable_piece* target = p.home;
        if (p.home->vacant) {
            if (auto const e = space_.back_again(p.home->where)) return e;
            std::scoped_lock const guard(index_.mutex);
            p.home->vacant = false;
            index_.use(target);
        } else {
            auto const e = space_.reserve(p.home->where.bytes);
            if (!e) return e.error();
            target = new (std::nothrow) durable_piece{*e, 1};
            if (!target) {
                space_.release(*e);
                return make_error_code(errc::memory_full);
            }
        }
        std::error_code failed;
        if (!write_whole(files_.data.get(), target->where.offset, memory(p)) ||
            !window_.copy_on_write(files_.data.get(), p.home->where, target->where.offset))
            failed = io_code(errno);
        std::scoped_lock const guard(index_.mutex);
        if (failed) {
            index_.drop(target);
            return failed;
        }
        index_.drop(p.stored);
        p.stored = target;
        p.hash   = now;
        p.hashed = true;
        p.dirty  = false;
        publish(j);
        return {};
    }

    std::span<std::byte const> memory(durable_place const& p) const noexcept {
        return {window_.at(p.home->where.offset), p.bytes};
    }

    /// Copies to the index what this sync has changed in the block, if it still lives. Under the index's mutex.
    void publish(job const& j) noexcept {
        durable_place* const q = index_.table.find(j.id);
        if (!q) return;
        if (q->stored != j.place.stored) {
            index_.use(j.place.stored);
            index_.drop(q->stored);
            q->stored = j.place.stored;
        }
        q->state  = j.place.state;
        q->hash   = j.place.hash;
        q->hashed = j.place.hashed;
        q->dirty  = j.place.dirty;
    }

    std::vector<catalog_change> list_changes(durable_round& r, catalog_header& next) {
        std::vector<catalog_change> changes;
        std::scoped_lock const      guard(index_.mutex);
        changes.reserve(r.jobs.size() + r.removals.size());
        vacated_.reserve(vacated_.size() + r.jobs.size());  // for take_over(), when it is too late to fail
        for (job& j : r.jobs) {
            durable_name& n = *j.place.name;
            if (n.committed == j.place.stored) continue;
            j.record                = {j.place.stored->where.offset, j.place.bytes, j.place.hash, 0};
            j.record.check          = j.record.expected_check(key_of(*n.text));
            j.place.stored->retires = true;  // even if the outcome of the commit is unknown
            next.sum ^= j.record.check ^ (n.committed ? n.check : 0);
            next.blocks += n.committed ? 0 : 1;
            changes.push_back({*n.text, &j.record});
        }
        for (durable_name const* const n : r.removals) {
            next.sum ^= n->check;
            --next.blocks;
            changes.push_back({*n->text, nullptr});
        }
        ++next.sequence;
        next.check = next.expected_check();
        return changes;
    }

    /// Does step 5, for the names of this round.
    void take_over(durable_round& r) noexcept {
        std::scoped_lock const guard(index_.mutex);
        for (job& j : r.jobs) {
            durable_name& n = *j.place.name;
            n.successor     = 0;
            if (n.committed == j.place.stored) continue;
            index_.drop(n.committed);
            index_.use(j.place.stored);
            n.committed = j.place.stored;
            n.check     = j.record.check;
        }
        for (durable_name* const n : r.removals) {
            index_.drop(n->committed);
            n->committed = nullptr;
            n->successor = 0;
        }
        // Homes without contents: only the block's address and this round use them.
        for (job& j : r.jobs) {
            durable_piece* const home = j.place.home;
            if (home == j.place.stored || home->vacant || home->users != 2) continue;
            index_.use(home);
            vacated_.push_back(home);
        }
    }

    durable_files&              files_;
    file_window&                window_;
    file_space&                 space_;
    durable_index&              index_;
    std::vector<durable_piece*> vacated_;  ///< counted as a user of each
    std::error_code             failed_;
};

}  // namespace tenure::detail

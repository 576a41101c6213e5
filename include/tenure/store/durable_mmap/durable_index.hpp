// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenure/detail/blocks/block_table.hpp>
#include <tenure/detail/space/file_space.hpp>
#include <tenure/store/concept.hpp>
#include <tenure/store/durable_mmap/durable_format.hpp>

namespace tenure::detail {

/// An extent of the data file, with a count of its users: a block for its address, a block for its contents, a
/// catalog name for what a crash would bring back, a sync in progress. It is reused only after all have let go.
struct durable_piece {
    extent_in_file where;
    unsigned       users   = 0;
    bool           retires = false;  ///< retired when free: the catalog, a reader or a private mapping may know it
    bool           vacant  = false;  ///< an address only; its contents are punched out
};

struct durable_name {
    std::string const* text      = nullptr;
    std::uint64_t      id        = 0;        ///< of the block that has the name now; 0: none
    std::uint64_t      successor = 0;        ///< of the block that had it and was kept under another name
    durable_piece*     committed = nullptr;  ///< what the catalog has under the name; null: nothing
    std::uint64_t      check     = 0;        ///< of that record
    bool               syncing   = false;
    bool               removed   = false;    ///< listed, for the next commit to examine
    durable_name*      next      = nullptr;  ///< in that list
};

enum class durable_state : unsigned char {
    unread,  ///< of an earlier process, not verified yet
    fresh,   ///< never synced: mapped so that writes go to the file
    sealed,  ///< mapped copy-on-write over what was or is being synced
};

struct durable_place {
    durable_piece* home   = nullptr;  ///< its address
    durable_piece* stored = nullptr;  ///< its contents as of `hash`
    std::size_t    bytes  = 0;
    content_hash   hash{};
    durable_name*  name    = nullptr;
    durable_state  state   = durable_state::fresh;
    bool           hashed  = false;  ///< `hash` is that of the contents at `stored`
    bool           exposed = false;  ///< its address was given out: it may change at any time
    bool           dirty   = false;  ///< it was written to
    bool           syncing = false;  ///< a sync is writing its contents to the file; writers wait
    unsigned       writers = 0;      ///< calls that write to it
};

/// The blocks and names of a durable store. The caller locks `mutex` for all but the table. `mutex` is never held
/// across a system call.
class durable_index {
public:
    explicit durable_index(file_space& space) noexcept : space_(space) {}
    ~durable_index() {
        table.for_each([&](std::uint64_t, durable_place const& p) {
            drop(p.home);
            drop(p.stored);
        });
        for (auto& [text, n] : names) drop(n.committed);
    }

    mutable std::mutex         mutex;
    std::condition_variable    at_rest;  ///< some block's `writers` is 0, or it is not `syncing`
    block_table<durable_place> table;
    std::map<std::string, durable_name, std::less<>> names;

    /// Returns null if the block is not live, or has another size.
    durable_place* find(block b) noexcept {
        durable_place* const p = table.find(b.id);
        return p && p->bytes == b.bytes ? p : nullptr;
    }

    /// Adds a block at an extent. Returns its id, or 0 if memory ran out.
    std::uint64_t add(extent_in_file where, durable_place p) {
        auto* const piece = new (std::nothrow) durable_piece{where};
        if (!piece) return 0;
        p.home = p.stored      = piece;
        piece->users           = 2;
        std::uint64_t const id = table.insert(p);
        if (!id) delete piece;
        return id;
    }

    durable_name& name_of(std::string_view text) {
        auto const i = names.find(text);
        if (i != names.end()) return i->second;
        auto const made   = names.emplace(std::string(text), durable_name{}).first;
        made->second.text = &made->first;
        return made->second;
    }

    /// Gives the block the name. A block that had it ends, since the store owned it. Returns that block's bytes.
    std::size_t give_name(std::uint64_t id, durable_place& p, durable_name& n) noexcept {
        if (n.id == id) return 0;
        std::size_t   ended = 0;
        durable_place old;
        if (n.id && table.erase(n.id, old)) {
            ended    = old.bytes;
            old.name = nullptr;
            end(old);
        }
        if (p.name) take_name(*p.name, id);
        n.id   = id;
        p.name = &n;
        return ended;
    }

    /// Drops the name and the extents of a block that is no longer in the table. Allocates nothing.
    void end(durable_place const& p) noexcept {
        if (p.name) take_name(*p.name, 0);
        drop(p.home);
        drop(p.stored);
    }

    void use(durable_piece* p) noexcept { ++p->users; }

    void drop(durable_piece* p) noexcept {
        if (!p || --p->users != 0) return;
        if (p->retires) space_.retire(p->where);
        else space_.release_later(p->where);
        delete p;
    }

    /// Takes the name from its block. `successor`: the block's id if it has another name now, else 0. The name
    /// stays known as long as the catalog has it.
    void take_name(durable_name& n, std::uint64_t successor) noexcept {
        n.id        = 0;
        n.successor = successor;
        settle(n);
    }

    /// Lists a name that the catalog has and no block, for the next commit. Erases it if nothing needs it.
    void settle(durable_name& n) noexcept {
        if (n.id || n.removed) return;
        if (n.committed) {
            n.removed = true;
            n.next    = std::exchange(removed, &n);
        } else if (!n.syncing) {
            names.erase(names.find(*n.text));
        }
    }
    durable_name* removed = nullptr;  ///< that list

private:
    file_space& space_;
};

/// Keeps syncs from the block's contents while it lives. A sync may take more blocks along than it was asked for
/// (durable_round::add), so callers cannot prevent that.
class durable_writer {
public:
    durable_writer(durable_index& index, block b) noexcept : index_(index), block_(b) {
        std::unique_lock lock(index_.mutex);
        durable_place*   p = index_.find(b);
        while (p && p->syncing) {
            index_.at_rest.wait(lock);
            p = index_.find(b);
        }
        if (!p) return;
        ++p->writers;
        p->dirty = true;
        found_   = true;
        fresh_   = p->state == durable_state::fresh;
    }
    durable_writer(durable_writer const&)            = delete;
    durable_writer& operator=(durable_writer const&) = delete;
    ~durable_writer() {
        if (!found_) return;
        std::scoped_lock const guard(index_.mutex);
        durable_place* const   p = index_.find(block_);
        if (p && --p->writers == 0 && p->syncing) index_.at_rest.notify_all();
    }

    /// Returns false if the block is gone.
    explicit operator bool() const noexcept { return found_; }
    /// Returns whether the address shows the file: a write to the file is then enough.
    bool is_fresh() const noexcept { return fresh_; }

private:
    durable_index& index_;
    block const    block_;
    bool           found_ = false, fresh_ = false;
};

/// The blocks and names of one sync. The destructor lets go of them, whatever the outcome.
class durable_round {
public:
    struct job {
        std::uint64_t  id;
        durable_place  place;  ///< as found, and as this sync has changed it
        catalog_record record{};
    };
    std::vector<job>           jobs;
    std::vector<durable_name*> removals;         ///< names that the catalog has and no block
    bool                       unnamed = false;  ///< a block without a name is to be synced, too

    explicit durable_round(durable_index& index) noexcept : index_(index) {}
    durable_round(durable_round const&)            = delete;
    durable_round& operator=(durable_round const&) = delete;
    ~durable_round() {
        std::scoped_lock const guard(index_.mutex);
        let_write();
        for (durable_name* const n : removals) let_go(*n);  // listed again if the commit failed
        for (job& j : jobs) {
            index_.drop(j.place.home);
            index_.drop(j.place.stored);
            let_go(*j.place.name);
        }
    }

    /// Adds a block, under the index's mutex. Also adds the block that had a synced or removed name and has
    /// another now: else a crash would find it under neither.
    void add(std::uint64_t id, durable_place const& p) {
        if (!p.name) unnamed = true;
        if (!p.name || p.name->syncing) return;
        jobs.push_back({id, p});
        p.name->syncing = true;
        index_.use(p.home);
        index_.use(p.stored);
        add_successor(*p.name);
    }
    /// Keeps calls from writing to the round's blocks until let_write(). Waits for writers, with `lock` on the
    /// index's mutex.
    void still(std::unique_lock<std::mutex>& lock) {
        is_still_ = true;
        set_syncing(true);
        index_.at_rest.wait(lock, [&] {
            return std::ranges::none_of(jobs, [&](job const& j) {
                durable_place const* const p = index_.table.find(j.id);
                return p && p->writers != 0;
            });
        });
    }
    /// Ends still(). Called under the index's mutex.
    void let_write() noexcept {
        if (!std::exchange(is_still_, false)) return;
        set_syncing(false);
        index_.at_rest.notify_all();
    }

    void add_removals() {
        while (durable_name* const n = index_.removed) {
            bool const goes = n->id == 0 && n->committed && !n->syncing;
            if (goes) removals.push_back(n);  // while it is listed, since this may throw
            index_.removed = n->next;
            n->removed     = false;
            if (goes) {
                n->syncing = true;
                add_successor(*n);
            } else if (!n->syncing) {
                index_.settle(*n);
            }
        }
    }

private:
    void add_successor(durable_name const& n) {
        if (durable_place const* const p = n.successor ? index_.table.find(n.successor) : nullptr)
            add(n.successor, *p);
    }

    void set_syncing(bool now) noexcept {
        for (job const& j : jobs)
            if (durable_place* const p = index_.table.find(j.id)) p->syncing = now;
    }

    void let_go(durable_name& n) noexcept {
        n.syncing = false;
        index_.settle(n);
    }

    durable_index& index_;
    bool           is_still_ = false;
};

}  // namespace tenure::detail

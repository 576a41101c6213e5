// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace tenure::detail {

/// What a replica is doing. Its bytes count against its store in every state but `free`.
enum class replica_state : std::uint8_t {
    free,       ///< the record is nobody's
    arriving,   ///< room for it is set aside, and perhaps it is being copied
    here,       ///< verified, may be read
    giving,     ///< as `here`, and leaves when the copy that takes its place is verified
    leaving,    ///< may be read by who does so already; is dropped next
    cancelled,  ///< arriving, though its buffer is gone or was written
    abandoned,  ///< not a buffer's any more, but somebody still reads it
};

/// One buffer's bytes in one store.
struct replica_record {
    std::uint32_t buffer;
    std::uint32_t next_of_buffer;
    std::uint32_t previous;  ///< in its store, or with `next` alone: the free records
    std::uint32_t next;
    std::uint32_t readers;  ///< or, while it arrives, the replica that it is copied from
    std::uint16_t store;
    replica_state state;
    std::uint8_t  acquired;  ///< in which of the last cycles, as cycle_tag() gives it; 0: before those
};
static_assert(sizeof(replica_record) == 24);

/// A buffer, in 12 bytes: a manager has millions.
struct replicated_buffer {
    std::uint32_t low_bytes;
    std::uint32_t high_bytes : 12;
    std::uint32_t declared : 8;    ///< how many copies were asked for; 0: not said
    std::uint32_t generation : 7;  ///< differs from the last buffer's of this number
    std::uint32_t live : 1;
    std::uint32_t changed : 1;   ///< is in the list of what changed
    std::uint32_t wanted : 1;    ///< a drop was refused for a reason that passes
    std::uint32_t unplaced : 1;  ///< is in the list of those for which there was no room
    std::uint32_t written : 1;   ///< a copy is being written: none is made of it
    std::uint32_t first;         ///< its replicas; or the next free number

    static constexpr std::size_t most_bytes = (std::size_t{1} << 44) - 1;

    std::size_t bytes() const noexcept { return std::size_t{high_bytes} << 32 | low_bytes; }
};
static_assert(sizeof(replicated_buffer) == 12);

/// The replicas that a store has, as a ring, and how far in it those are that go through it.
struct replicas_of_store {
    std::uint32_t first  = static_cast<std::uint32_t>(-1);
    std::uint32_t cursor = static_cast<std::uint32_t>(-1);  ///< of who looks at all of them
    std::uint32_t round  = static_cast<std::uint32_t>(-1);  ///< of who looks at some, in turn
    std::uint32_t count  = 0;
};

/// The records of buffers and replicas, and their lists: by buffer, and by store. Knows nothing of what a state
/// allows. 36 bytes for a buffer with one replica, 24 for each further one; never moves a record, so that no call
/// takes long. Not thread-safe.
class replica_table {
public:
    static constexpr std::uint32_t none = static_cast<std::uint32_t>(-1);

    /// Returns a new buffer's number. Numbers are used again, the one that has been free for longest first.
    std::uint32_t add_buffer(std::size_t bytes) {
        std::uint32_t b = oldest_free_;
        if (b == none) {
            b = static_cast<std::uint32_t>(buffers_.size());
            buffers_.push_back({});
        } else {
            oldest_free_ = buffers_[b].first;
            if (oldest_free_ == none) newest_free_ = none;
        }
        replicated_buffer const before = buffers_[b];
        buffers_[b]                    = {};
        buffers_[b].low_bytes          = static_cast<std::uint32_t>(bytes);
        buffers_[b].high_bytes         = static_cast<std::uint32_t>(bytes >> 32) & 0xfff;
        buffers_[b].generation         = before.generation;
        buffers_[b].changed            = before.changed;  // its number is in those lists still
        buffers_[b].unplaced           = before.unplaced;
        buffers_[b].live               = 1;
        buffers_[b].first              = none;
        ++live_;
        return b;
    }

    /// Frees the number of a buffer, which has no replicas.
    void remove_buffer(std::uint32_t b) noexcept {
        replicated_buffer& buffer = buffers_[b];
        buffer.generation         = (buffer.generation + 1) & 0x7f;
        buffer.live               = 0;
        buffer.first              = none;
        if (newest_free_ == none) oldest_free_ = b;
        else buffers_[newest_free_].first = b;
        newest_free_ = b;
        --live_;
    }

    /// Returns a new replica of `b`, last in `list`, the list of the store with that number.
    std::uint32_t add_replica(std::uint32_t b, std::uint16_t store, replicas_of_store& list, replica_state state) {
        std::uint32_t r = free_replica_;
        if (r == none) {
            r = static_cast<std::uint32_t>(replicas_.size());
            replicas_.push_back({});
        } else {
            free_replica_ = replicas_[r].next;
        }
        replicas_[r]      = {b, buffers_[b].first, none, none, 0, store, state, 0};
        buffers_[b].first = r;
        if (list.first == none) {
            list.first = list.cursor = list.round = r;
            replicas_[r].previous = replicas_[r].next = r;
        } else {
            std::uint32_t const last       = replicas_[list.first].previous;
            replicas_[r].previous          = last;
            replicas_[r].next              = list.first;
            replicas_[last].next           = r;
            replicas_[list.first].previous = r;
        }
        ++list.count;
        return r;
    }

    /// Takes a replica out of its buffer's list. It remembers how many bytes it has.
    void detach(std::uint32_t r) noexcept {
        replica_record&    out    = replicas_[r];
        replicated_buffer& buffer = buffers_[out.buffer];
        std::uint32_t*     link   = &buffer.first;
        while (*link != r) link = &replicas_[*link].next_of_buffer;
        *link              = out.next_of_buffer;
        out.buffer         = buffer.low_bytes;
        out.next_of_buffer = buffer.high_bytes;
    }

    /// Frees the record of a replica that was detached.
    void remove_replica(std::uint32_t r, replicas_of_store& list) noexcept {
        replica_record& out = replicas_[r];
        if (out.next == r) {
            list.first = list.cursor = list.round = none;
        } else {
            replicas_[out.previous].next = out.next;
            replicas_[out.next].previous = out.previous;
            if (list.first == r) list.first = out.next;
            if (list.cursor == r) list.cursor = out.next;
            if (list.round == r) list.round = out.next;
        }
        --list.count;
        out.state     = replica_state::free;
        out.next      = free_replica_;
        free_replica_ = r;
    }

    static bool detached(replica_record const& r) noexcept {
        return r.state == replica_state::cancelled || r.state == replica_state::abandoned;
    }

    std::size_t bytes(std::uint32_t r) const noexcept {
        replica_record const& it = replicas_[r];
        return detached(it) ? std::size_t{it.next_of_buffer} << 32 | it.buffer : buffers_[it.buffer].bytes();
    }

    replicated_buffer&       buffer(std::uint32_t b) noexcept { return buffers_[b]; }
    replicated_buffer const& buffer(std::uint32_t b) const noexcept { return buffers_[b]; }
    replica_record&          operator[](std::uint32_t r) noexcept { return replicas_[r]; }
    replica_record const&    operator[](std::uint32_t r) const noexcept { return replicas_[r]; }

    /// Calls f(replica) for each replica of a buffer. `f` may detach that one.
    template <class F>
    void for_each(std::uint32_t b, F&& f) const {
        for (std::uint32_t r = buffers_[b].first; r != none;) {
            std::uint32_t const next = replicas_[r].next_of_buffer;
            f(r);
            r = next;
        }
    }

    std::size_t size() const noexcept { return live_; }
    bool        has_buffer(std::uint32_t b) const noexcept { return b < buffers_.size() && buffers_[b].live; }
    bool        has_replica(std::uint32_t r) const noexcept {
        return r < replicas_.size() && replicas_[r].state != replica_state::free;
    }

private:
    std::deque<replicated_buffer> buffers_;
    std::deque<replica_record>    replicas_;
    std::uint32_t                 oldest_free_ = none, newest_free_ = none, free_replica_ = none;
    std::size_t                   live_ = 0;
};

}  // namespace tenure::detail

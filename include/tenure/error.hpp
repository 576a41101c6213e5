// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <cstddef>
#include <new>
#include <string>
#include <system_error>
#include <type_traits>

#include <tenure/raise.hpp>

#include <tenure/detail/base/config.hpp>
#include <tenure/detail/base/module.hpp>

namespace tenure {

/// The errors of tenure. `message()` of each says what to do next.
enum class errc {
    stale_handle = 1,    ///< the object was freed
    batch_ended,         ///< the batch is over, or was asked to stop
    no_such_batch,       ///< the id was never given out by this registry
    not_owner,           ///< another batch owns the object
    limit_exceeded,      ///< the hard limit of the batch, or of one above it
    memory_full,         ///< the system gives no more memory or address space
    out_of_range,        ///< an index past the end of an array
    wrong_thread,        ///< a guard was used on a thread that did not open it; see also make, keep
    bad_address,         ///< adopt() of a pointer that cannot be an object's address
    no_such_block,       ///< the store has no such block, or has freed it
    store_full,          ///< a store's capacity, limit or disk is used up
    store_closed,        ///< a store was used after its close()
    store_in_use,        ///< another process has the store open
    bad_alignment,       ///< an alignment that is not a power of two, or is more than the store can give
    not_addressable,     ///< the store's blocks have no address in this process
    not_durable,         ///< the store cannot keep blocks beyond the process
    not_copyable,        ///< the store cannot copy by itself
    corrupt,             ///< the medium does not hold what was written there
    newer_format,        ///< a later version of tenure wrote it
    read_only,           ///< the store was opened for reading
    batch_in_use,        ///< a thread is inside, or something depends on it
    not_pageable,        ///< the batch's memory is not this process's own, or it is the root
    device_unavailable,  ///< a device, its driver or its server cannot be reached
    disconnected,        ///< the connection to a server is gone, and with it what was held there
    timed_out,           ///< a server did not answer in time, or a budget had no room in time
    protocol_error,      ///< a peer sent something that makes no sense
    access_denied,       ///< a server does not let this client do that
    no_such_name,        ///< nothing is shared under that name
    insecure,            ///< something would have been open to everybody
    expired,             ///< the batch's time is up
    cancelled,           ///< the batch was cancelled
    object_pinned,       ///< a pin or a borrow keeps the object from being freed or moved
    evicted,             ///< the buffer's bytes were dropped, and it has no derivation
    no_checkpoint,       ///< the batch has no open checkpoint
    not_restorable,      ///< a rollback could not bring it back
    not_a_file,          ///< a link, a pipe, a device or a directory where a file of a store should be
    store_replaced,      ///< a store's files were removed or replaced while it was open
    mappings_full,       ///< vm.max_map_count is nearly reached; the rest is left to threads and allocators
    forked,              ///< in the child of a fork(): it belongs to the parent, or to a thread that is not here
    not_self_contained,  ///< the object's memory is its batch's resource(), where it would stay
    no_feature,          ///< the registry was opened by code that does not include what the call needs
    not_adopted,         ///< release() of an object that was made in a batch, whose memory it is
    not_compactable,     ///< a compact_handle cannot name the object
    root_refused,        ///< registry_options::root_makes: nothing may be made in the registry's root
    would_deadlock,      ///< all who have room in a budget wait for more
    below_itself,        ///< a batch was to get a parent that is below it
    store_lost,          ///< all stores of a group that had a copy of the buffer died
    not_in_group,        ///< the buffer is in no store_group, or not in that one
    replica_needed,      ///< the copy of a buffer cannot be dropped
};

namespace detail {

/// Returns what message() says.
[[gnu::cold]] constexpr char const* text_of(errc e) noexcept {
    switch (e) {
    case errc::stale_handle:
        return "stale handle: the object was freed, or there never was one; keep() it before its batch ends, or "
               "ask "
               "alive() first";
    case errc::batch_ended: return "the batch has ended; make, keep or transfer in a batch that is still active";
    case errc::no_such_batch:
        return "no such batch: this registry never gave out that id; pass an id from batch_scope::id(), "
               "detach() or new_batch() of the same registry";
    case errc::not_owner:
        return "not the owner: another batch owns the object; call this on its owner(), or use "
               "registry::transfer_ownership";
    case errc::limit_exceeded:
        return "limit exceeded: free something, end a child batch, or raise the limit "
               "(batch_options::limits.hard, a budget's capacity)";
    case errc::memory_full:
        return "memory full: the system refused more memory; end batches, call registry::trim(), or raise the "
               "process's limit (ulimit -v, cgroup, vm.max_map_count)";
    case errc::out_of_range: return "out of range: the index is not below size()";
    case errc::wrong_thread:
        return "wrong thread: a guard belongs to the thread that opened it, and so does what is made through "
               "it (use detach() and end_batch(id), enter(), or lane() to cross threads, and batch_owner or "
               "bind_batch in coroutines); a large object with a destructor stays in its batch while the lane "
               "that made it is open (close the lane first)";
    case errc::no_such_block:
        return "no such block: it was freed, or is another store's; name a block that allocate() of this store "
               "gave and deallocate() did not take";
    case errc::store_full: return "store full: free blocks, raise the store's limit, or make room on its disk";
    case errc::store_closed: return "store closed: open it again";
    case errc::store_in_use:
        return "store in use: another process has it open; close it there, or open it for reading";
    case errc::bad_alignment:
        return "bad alignment: it must be a power of two that the store can give (a page, for most)";
    case errc::not_addressable:
        return "not addressable: the store's blocks have no address in this process; use read() and write(), "
               "or move_to() a store that is addressable";
    case errc::not_durable: return "not durable: the store cannot keep blocks; use one that is durable";
    case errc::not_copyable: return "not copyable: the store cannot copy by itself; read() and write() instead";
    case errc::corrupt:
        return "corrupt: the medium does not hold what was written there; restore the file from a copy, or "
               "drop the block";
    case errc::newer_format: return "newer format: a later version of tenure wrote this; open it with that version";
    case errc::read_only: return "read-only: open the store for writing";
    case errc::batch_in_use:
        return "batch in use: leave it first (guards, enter(), lane()), release pins of what it owns, and end "
               "the batches below it";
    case errc::not_pageable:
        return "not pageable: only a batch whose objects live in a heap_store goes out, and not the root";
    case errc::device_unavailable:
        return "device unavailable: see that its driver or server runs and can be reached";
    case errc::disconnected:
        return "disconnected: the server is gone, or was out of reach for longer than its lease; what it held "
               "is freed; connect again and make it anew";
    case errc::timed_out:
        return "timed out: a server did not answer, or a budget had no room; see that the server runs, ask the "
               "budget for less, or raise the timeout";
    case errc::protocol_error:
        return "protocol error: the peer does not speak tenure's protocol, or not this version of it";
    case errc::access_denied:
        return "access denied: see the token, the certificate or the user that the server was told to trust";
    case errc::no_such_name: return "no such name: nobody shares a buffer under it; share() it first";
    case errc::insecure:
        return "insecure: beyond this machine a server needs TLS and a token or client certificates";
    case errc::expired: return "expired: the batch's time is up; raise batch_options::timeout, or do less in it";
    case errc::cancelled: return "cancelled: the batch was cancelled; make it anew";
    case errc::object_pinned:
        return "object pinned: somebody uses it; release the pin, or end the batch that took it";
    case errc::evicted:
        return "evicted: the buffer's bytes were dropped; make it with make_derived(), or write it anew";
    case errc::no_checkpoint: return "no checkpoint: call checkpoint() first";
    case errc::mappings_full:
        return "mappings full: the process has nearly as many as vm.max_map_count allows, and the rest is left "
               "to threads and allocators; raise that, or page out fewer and larger batches";
    case errc::forked:
        return "forked: a child process has neither the files, connections and devices of its parent, nor what "
               "other threads of that were at; make anew what the child needs, or exec";
    case errc::not_restorable:
        return "not restorable: a rollback could not bring it back; keep it in another batch, or commit() first";
    case errc::not_a_file:
        return "not a file of its own: there is a symbolic or hard link, a pipe, a device or a directory of "
               "that name; remove it, or put a copy of the file there";
    case errc::store_replaced:
        return "store replaced: its files were removed, moved or replaced while it was open; put them back, or "
               "close it and open it again";
    case errc::not_self_contained:
        return "not self-contained: the object was made with its batch's own resource(), and that memory stays "
               "with the batch; make it with the resource() of the batch that it is to be kept in, or copy it "
               "there";
    case errc::no_feature:
        return "no such feature: the code that opened the registry does not include its header; include it, or "
               "<tenure/tenure.hpp>, in a source of the program";
    case errc::not_adopted:
        return "not adopted: the object was made in a batch, and its memory is the batch's; detach() it for an "
               "owner outside of all batches";
    case errc::not_compactable:
        return "not compactable: a compact_handle<T> names what make<T>() made as just that type, within one range "
               "of 32 GiB of addresses; use a handle<T> for it";
    case errc::would_deadlock:
        return "would deadlock: all who have room in the budget wait for more; end this batch and try again, or "
               "reserve what it needs when it begins";
    case errc::store_lost:
        return "store lost: all stores of the group that had a copy of it died; make it anew, or keep more copies "
               "(replicate(b, 2), keep_replicas)";
    case errc::not_in_group:
        return "not in the group: the buffer is elsewhere; make it with a store_group or one of its stores, or "
               "move_to() there";
    case errc::replica_needed:
        return "replica needed: it is the last copy, or one of as many as were asked for, or in use; replicate() "
               "first, or try again";
    case errc::below_itself:
        return "below itself: no batch can be below itself; pass a parent that is not below it";
    case errc::root_refused:
        return "root refused: no batch is open, and nothing may be made in the registry's root "
               "(registry_options::root_makes); open a batch first, or make it in one that is open";
    case errc::bad_address:
        return "bad address: adopt() takes a pointer to an object in this process, not null or a tagged value";
    }
    return "unknown tenure error";
}

class TENURE_SHARED error_category_type final : public std::error_category {
public:
    char const* name() const noexcept override { return "tenure"; }

    std::string message(int code) const override { return text_of(static_cast<errc>(code)); }

    std::error_condition default_error_condition(int code) const noexcept override {
        switch (static_cast<errc>(code)) {
        case errc::memory_full:
        case errc::mappings_full: return std::errc::not_enough_memory;
        case errc::store_full: return std::errc::no_space_on_device;
        case errc::read_only: return std::errc::read_only_file_system;
        default: return {code, *this};
        }
    }
};

}  // namespace detail

namespace detail {

/// Returns the process's one object of type T. It is never destroyed, so destructors of static objects may use it.
template <class T>
TENURE_SHARED T const& immortal() noexcept {
    alignas(T) static std::byte memory[sizeof(T)];
    static T const&             made = *::new (memory) T;
    return made;
}

}  // namespace detail

/// Returns the category of `errc`. Thread-safe.
inline std::error_category const& error_category() noexcept {
    return detail::immortal<detail::error_category_type>();
}

inline std::error_code make_error_code(errc e) noexcept { return {static_cast<int>(e), error_category()}; }

/// Reports an error of tenure, of a store or of the system as an exception. Besides it, calls throw
/// std::bad_alloc, and `make` lets a constructor's own exception through.
class TENURE_SHARED error : public std::system_error {
public:
    explicit error(errc e) : std::system_error(make_error_code(e)) {}
    explicit error(std::error_code e) : std::system_error(e) {}

    /// Puts `context` first in `what()`: which call, which batch, which figures.
    error(errc e, std::string const& context) : std::system_error(make_error_code(e), context) {}

    /// Reports what a store or the system said, after `context`.
    error(std::error_code e, std::string const& context) : std::system_error(e, context) {}
};

}  // namespace tenure

template <>
struct std::is_error_code_enum<tenure::errc> : std::true_type {};

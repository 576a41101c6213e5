// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

// Opt-in, for jobs that go on where they were interrupted. Needs LMDB and libxxhash (Debian: liblmdb-dev,
// libxxhash-dev).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <tenure/batch_scope.hpp>
#include <tenure/buffer.hpp>
#include <tenure/current.hpp>
#include <tenure/detail/blocks/copying.hpp>
#include <tenure/detail/buffers/named_buffers.hpp>
#include <tenure/store/durable_mmap.hpp>

namespace tenure {

namespace detail {

/// Names in the store. Those of one save begin with its number, and one block says which save counts.
inline constexpr std::string_view save_prefix = "save/", save_current = "save/current";

inline std::string save_names(std::uint64_t number) {
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
    return std::string(save_prefix) + text + "/";
}

inline void require_saved(result<void> const& done, durable_mmap_store const& in) {
    if (!done) raise(error(done.error(), "save in " + in.describe()));
}
template <class T>
T require_saved(result<T> const& got, durable_mmap_store const& in) {
    if (!got) raise(error(got.error(), "save in " + in.describe()));
    return *got;
}

/// Returns the number of the save that counts, or 0 if nothing was saved.
inline std::uint64_t current_save(durable_mmap_store& in) {
    result<block> const where  = in.find(save_current);
    std::uint64_t       number = 0;
    if (where) require_saved(in.read(*where, 0, std::as_writable_bytes(std::span(&number, 1))), in);
    return number;
}

}  // namespace detail

/// Puts a buffer into the saves of this thread's current batch, under a name and as long as that batch owns it. A
/// buffer that is given the same name later takes its place. A name has 1 to 400 bytes. Throws stale_handle,
/// out_of_range, and as make().
template <class T>
void give_name(buffer<T> const& b, std::string_view name) {
    static_assert(alignof(T) <= 64, "what is restored is aligned to 64");
    if (!b.alive()) raise(error(errc::stale_handle, "give a name to a buffer"));
    if (name.empty() || name.size() > 400) raise(error(errc::out_of_range, "a buffer's name has 1 to 400 bytes"));
    detail::name_buffer(detail::current_lane(), detail::handle_access::raw(b), b.size() * sizeof(T), name);
}

/// The buffers that restore() brought back, by name.
class restored_buffers {
public:
    bool empty() const noexcept { return all_.empty(); }
    bool contains(std::string_view name) const { return all_.contains(name); }

    /// Returns the buffer with that name. Throws no_such_name, and out_of_range if its size is not a multiple of
    /// T's.
    template <class T>
    buffer<T> get(std::string_view name) const {
        static_assert(alignof(T) <= 64);
        auto const at = all_.find(name);
        if (at == all_.end()) raise(error(errc::no_such_name, "restored buffer '" + std::string(name) + "'"));
        if (at->second.bytes % sizeof(T))
            raise(error(errc::out_of_range, "restored buffer '" + std::string(name) + "'"));
        return detail::handle_access::make_buffer<buffer<T>>(at->second.what, at->second.bytes / sizeof(T));
    }

private:
    friend restored_buffers restore(std::filesystem::path const&);
    struct piece {
        detail::raw_handle what;
        std::size_t        bytes;
    };
    std::map<std::string, piece, std::less<>> all_;
};

/// Writes the batch's buffers that have names, in whatever stores they are, to a durable store in `directory`, and
/// how far the job is (batch_scope::progress); all other names there are dropped. On return the buffers are on
/// stable storage; a crash before leaves the last save, whole. No other thread may be inside the batch, and one
/// that comes waits.
///
/// Throws batch_in_use, batch_ended, store_full: then the save before is still there; store_in_use: another
/// process has the store open; and what stores report. Cost: writing all of it, in new places, and some
/// fdatasync().
inline void save(batch_id id, std::filesystem::path const& directory) {
    detail::with_named_buffers(
        id.value, [&](detail::each_named_buffer for_each, detail::carried_figures const& figures) {
            auto const          to     = durable_mmap_store::open(directory);
            any_store           target = to;
            std::uint64_t const number = detail::current_save(*to) + 1;
            std::string const   prefix = detail::save_names(number);
            std::vector<block>  blocks;
            auto const          add = [&](std::size_t bytes, std::string const& name, auto fill) {
                block const made = detail::require_saved(to->allocate(bytes, 64), *to);
                detail::require_saved(fill(made), *to);
                detail::require_saved(to->keep(made, name), *to);
                blocks.push_back(made);
            };
            for_each([&](detail::named_buffer const& n) {
                add(n.bytes, prefix + std::string(n.name), [&](block const& made) {
                    return detail::copy_block({n.store, n.where}, {target, made}, n.bytes);
                });
            });
            add(sizeof figures, prefix, [&](block const& made) {  // no buffer has an empty name
                return to->write(made, 0, std::as_bytes(std::span(&figures, 1)));
            });
            // Until here the save before counts, even if the store syncs some names of this one when it is
            // destroyed.
            add(sizeof number, std::string(detail::save_current),
                [&](block const& made) { return to->write(made, 0, std::as_bytes(std::span(&number, 1))); });
            for (std::string const& name : to->names()) {
                if (name.starts_with(prefix) || name == detail::save_current) continue;
                block const old = detail::require_saved(to->find(name), *to);
                detail::require_saved(to->deallocate({&old, 1}), *to);
            }
            detail::require_saved(to->sync(blocks), *to);
            detail::require_saved(to->close(), *to);
        });
}

/// As save(id, directory), for the batch of a scope.
inline void save(batch_scope const& b, std::filesystem::path const& directory) { save(b.id(), directory); }

/// Makes the buffers of the last save in `directory` in this thread's current batch, in the batch's own store and
/// with their names; the batch's progress, elapsed time and waiting times go on from those of the save. Returns
/// none if nothing was saved. Throws as make(), and what the durable store reports:
/// corrupt, newer_format, not_a_file.
inline restored_buffers restore(std::filesystem::path const& directory) {
    restored_buffers out;
    std::error_code  ignored;  // opening the store reports it better
    auto const       found = std::filesystem::symlink_status(directory / "catalog", ignored).type();
    if (found == std::filesystem::file_type::not_found) return out;
    detail::lane&     l      = detail::current_lane();
    auto const        from   = durable_mmap_store::open(directory, {.read_only = true});
    any_store         source = from;
    std::string const prefix = detail::save_names(detail::current_save(*from));
    for (std::string const& name : from->names()) {
        if (!name.starts_with(prefix)) continue;
        std::string const plain = name.substr(prefix.size());
        block const       where = detail::require_saved(from->find(name), *from);
        if (plain.empty()) {
            detail::carried_figures figures;
            auto const              bytes = std::as_writable_bytes(std::span(&figures, 1));
            detail::require_saved(from->read(where, 0, bytes.first(std::min(bytes.size(), where.bytes))), *from);
            detail::go_on_from(l, figures);
            continue;
        }
        detail::raw_handle const made = detail::restore_named_buffer(l, plain, source, where);
        out.all_.emplace(plain, restored_buffers::piece{made, where.bytes});
    }
    return out;
}

}  // namespace tenure

#ifndef TENURE_SEPARATE
#include <tenure/detail/buffers/named_buffers.ipp>
#endif

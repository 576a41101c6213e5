// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <tenure/detail/base/os.hpp>
#include <tenure/detail/space/file_space.hpp>
#include <tenure/error.hpp>
#include <tenure/store/durable_mmap/durable_files.hpp>
#include <tenure/store/durable_mmap/durable_format.hpp>
#include <tenure/store/durable_mmap/durable_index.hpp>

namespace tenure::detail {

/// Makes the catalog's records unread blocks. Retires the rest of the file, which earlier writers left behind.
/// Returns the bytes in blocks. Throws tenure::error. O(n log n), once.
inline std::size_t load_durable(durable_files& files, file_space& space, durable_index& index,
                                std::uint64_t addresses) {
    std::uint64_t const page   = page_bytes();
    auto&               blocks = files.contents.blocks;
    std::ranges::sort(blocks, {}, [](auto const& b) { return b.record.offset; });
    std::size_t   bytes = 0;
    std::uint64_t at    = 0;
    auto const    leave = [&](std::uint64_t end) {
        if (end > at && space.claim({at, end - at})) space.retire({at, end - at});
    };
    auto const take = [&](extent_in_file e) {
        if (e.offset < at || !space.claim(e))
            raise(error(errc::corrupt, files.catalog_path.string() + ": blocks overlap"));
        leave(e.offset);
        at = e.end();
    };
    take({0, data_header::bytes});
    for (auto const& [name, r] : blocks) {
        extent_in_file const e = extent_of(r.offset, r.bytes, page);
        take(e);
        durable_name& n = index.name_of(name);
        durable_place p;
        p.bytes                = static_cast<std::size_t>(r.bytes);
        p.hash                 = r.hash;
        p.name                 = &n;
        p.state                = durable_state::unread;
        p.hashed               = true;
        std::uint64_t const id = index.add(e, p);
        if (!id) raise(error(errc::memory_full, files.catalog_path.string()));
        durable_piece* const piece = index.table.find(id)->home;
        piece->retires             = true;
        index.use(piece);
        n.id        = id;
        n.committed = piece;
        n.check     = r.check;
        bytes += p.bytes;
    }
    leave(std::min((files.data_bytes + page - 1) / page * page, addresses));
    blocks = {};
    return bytes;
}

}  // namespace tenure::detail

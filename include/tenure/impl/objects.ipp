// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <execinfo.h>

#include <tenure/detail/listing/listing.hpp>
#include <tenure/impl/registry.ipp>
#include <tenure/objects.hpp>

namespace tenure {

TENURE_DECL std::string object_info::place() const {
    if (made_at.empty()) return {};
    std::vector<void*> calls;
    for (void const* const back : made_at) calls.push_back(const_cast<char*>(static_cast<char const*>(back)) - 1);
    struct freed {
        char** text;
        ~freed() { std::free(text); }
    } const symbols{::backtrace_symbols(calls.data(), static_cast<int>(calls.size()))};
    if (!symbols.text) return {};
    std::string_view first;
    for (std::size_t i = 0; i < calls.size(); ++i) {
        std::string_view line = symbols.text[i];
        line                  = line.substr(0, line.find(" ["));
        if (line.find("(_ZN6tenure") == line.npos && line.find("(_ZNK6tenure") == line.npos &&
            line.find("(_ZZN6tenure") == line.npos)
            return std::string(line);
        if (i == 0) first = line;
    }
    return std::string(first);
}

namespace detail {

TENURE_DECL std::vector<object_info> object_calls::objects_of(registry_core& in, batch_id id) {
    found const b = find_known(in, id.value, "list the objects of batch ");
    if (!b.record) return {};
    return listing(in, *b.record, id.value).objects();
}

TENURE_DECL void object_calls::record(registry_core& in, bool on) {
    object_records::of(in).record(on);
    if (on) close_windows_of(in);
}

TENURE_DECL failure object_calls::name(registry_core& in, raw_handle h, finalizer const& what,
                                       std::string_view text) {
    if (!is_alive(h)) return {stale_because(h)};
    raw_handle const r    = resolve(h);
    auto const       name = [&](batch_record&, extent const& x) {
        std::size_t const  bytes = h.word & cell_flag ? what.size : x.bytes;
        object_to_be const o{r, x.begin, bytes, what, nullptr};
        return memory_lasts([&] { object_records::of(in).name(o, const_cast<void*>(h.pointer), text); })
                         ? failure{}
                         : failure{.code = errc::memory_full, .wanted = sizeof(object_record)};
    };
    return with_owner(in, r, nullptr, name);
}

}  // namespace detail
}  // namespace tenure

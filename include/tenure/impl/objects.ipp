// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dlfcn.h>

#include <tenure/detail/base/printed.hpp>
#include <tenure/detail/listing/listing.hpp>
#include <tenure/impl/registry.ipp>
#include <tenure/objects.hpp>

namespace tenure {

TENURE_DECL std::string object_info::place() const {
    std::string first;
    for (void const* const back : made_at) {
        auto const* const call = static_cast<char const*>(back) - 1;
        ::Dl_info         in{};
        if (::dladdr(call, &in) == 0) continue;
        std::string_view const function = in.dli_sname ? in.dli_sname : "";
        auto const* const      base     = static_cast<char const*>(in.dli_sname ? in.dli_saddr : in.dli_fbase);
        std::string            text =
            detail::printed("%s(%s+0x%tx)", in.dli_fname, in.dli_sname ? in.dli_sname : "", call - base);
        bool const ours = function.starts_with("_ZN6tenure") || function.starts_with("_ZNK6tenure") ||
                          function.starts_with("_ZZN6tenure");
        if (!ours) return text;
        if (first.empty()) first = std::move(text);
    }
    return first;
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
        object_to_be const o{r, x.begin, x.bytes, what};
        return memory_lasts([&] { object_records::of(in).name(o, const_cast<void*>(h.pointer), text); })
                         ? failure{}
                         : failure{.code = errc::memory_full, .wanted = sizeof(object_record)};
    };
    return with_owner(in, r, nullptr, name);
}

}  // namespace detail
}  // namespace tenure

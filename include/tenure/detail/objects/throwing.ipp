// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstring>
#include <source_location>
#include <string>
#include <string_view>

#include <tenure/detail/base/printed.hpp>
#include <tenure/detail/base/sizes.hpp>
#include <tenure/detail/batch/limits.hpp>
#include <tenure/detail/batch/loans.hpp>
#include <tenure/detail/objects/batch_figures.hpp>
#include <tenure/detail/objects/expiry.hpp>
#include <tenure/detail/objects/ownership_transfer.hpp>
#include <tenure/detail/objects/throwing.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

[[noreturn, gnu::cold]] TENURE_DECL void throw_failure(failure const& why, char const* what) {
    std::string const batch = why.batch ? label_of(*why.batch) : why.id ? label_of(why.id) : std::string();
    std::string       more;
    if (why.code == errc::limit_exceeded || why.code == errc::timed_out || why.code == errc::would_deadlock)
        more = printed(": %zu bytes in use, %zu more wanted, limit %zu", why.in_use, why.wanted,
                       hard_limit(*why.batch));
    if (batch_record* const b = why.wanted && why.batch ? record_of(why.batch->id.load()) : nullptr)
        if (auto const from = lender_of(*b)) more += from->holders();
    if (why.code == errc::memory_full) {
        registry_core* const r = why.batch ? why.batch->registry.load(std::memory_order_relaxed) : nullptr;
        if (r && r->pages && r->pages->limited) more = r->pages->largest_holders();
        more = why.wanted < absurd_bytes ? printed(": %zu bytes wanted%s", why.wanted, more.c_str())
                                         : ": more elements than there can be; a negative number of them?";
    }
    if (why.code == errc::store_full)
        more = printed(": %zu bytes wanted of store %s", why.wanted, why.batch->slabs->store.describe().c_str());
    int const n = static_cast<int>(std::strlen(what)) - (batch.empty() && std::string_view(what).ends_with(' '));
    raise(error(why.code, printed("%.*s%s%s", n, what, batch.c_str(), more.c_str())));
}

/// Returns "handle<T>", as the compiler spells T in that function's name: "... [with T = int]", "... [T = int]".
TENURE_COLD inline std::string handle_name(char const* function) {
    std::string_view  text = function ? function : "";
    std::size_t const at   = text.find("T = ");
    if (at == text.npos) return "handle";
    text = text.substr(at + 4);
    text = text.substr(0, std::min(text.find(';'), text.rfind(']')));
    return printed("handle<%.*s>", static_cast<int>(text.size()), text.data());
}

/// Returns the label of a batch, and where it was opened, unless another batch has its record by now.
TENURE_COLD inline std::string opened_label(std::uint64_t id) {
    batch_record const* const b     = record_of(id);
    std::string               label = label_of(id);
    if (!b) return label;
    std::source_location const where = b->where.load(std::memory_order_acquire);
    if (b->generation.load(std::memory_order_acquire) == id >> record_bits)
        label += printed(", opened at %s:%u", where.file_name(), where.line());
    return label;
}

/// Returns the batch in which a freed object was made, with what became of the object, as far as its memory tells:
/// until that is used again, or was one of many runs. Else nothing.
TENURE_COLD inline std::string origin_of(raw_handle h) {
    if (!h.word || h.word & cell_flag) return {};
    std::uint64_t id    = 0;
    bool          ended = false;
    {
        read_section const   here;
        std::uintptr_t const at = to_address(h.pointer);
        region* const        r  = find_region(at);
        if (!r) return {};
        unit const* const head = r->at(at)->head.load(std::memory_order_relaxed);
        word_t const ago = generation_of(table_word(at).load(std::memory_order_acquire)) - generation_of(h.word);
        if (!head || ago > 1) return {};
        ended                          = ago == 1;  // a run goes with all that is in it
        batch_record const* const home = head->home.load(std::memory_order_acquire);
        if (ended) id = head->last_taker();
        else if (home) id = home->id.load(std::memory_order_acquire);
    }
    batch_record const* const b = record_of(id);
    if (!b) return {};
    std::uint64_t const state = b->state.load(std::memory_order_acquire);
    bool const          over  = state & batch_flags::over;
    bool const          done  = state & batch_flags::done || b->id.load(std::memory_order_acquire) != id;
    if (done != ended) return {};  // the batch that has the memory now is not the one that made it
    char const* const what = ended ? "freed at its end" : over ? "which is over" : "freed before its end";
    return printed(" of batch %s, %s", opened_label(id).c_str(), what);
}

[[noreturn, gnu::cold]] TENURE_DECL void throw_refused(raw_handle h, errc why, char const* function) {
    std::string const name = handle_name(function);
    raise(error(why, h.word ? printed("access through a %s%s", name.c_str(), origin_of(h).c_str())
                            : printed("access through a null %s, which was given no object", name.c_str())));
}

[[noreturn, gnu::cold]] TENURE_DECL void throw_stale(raw_handle h, char const* function) {
    throw_refused(h, stale_because(resolve(h)), function);
}

[[noreturn, gnu::cold]] TENURE_DECL void throw_out_of_range(std::size_t i, std::size_t n) {
    raise(error(errc::out_of_range, printed("element %zu of an array of %zu", i, n)));
}

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include <link.h>

#include <tenure/detail/blocks/block_table.hpp>
#include <tenure/detail/life/forking.hpp>
#include <tenure/error.hpp>
#include <tenure/version.hpp>

namespace tenure::detail {

/// The check that a process has one copy of everything that is TENURE_SHARED. Such objects have default
/// visibility, so that the dynamic linker gives a program and its libraries one copy. It cannot if a program does
/// not export its symbols (-rdynamic), or if the compiler has no unique symbols and libraries are loaded with
/// RTLD_LOCAL. With two copies, an object would be registered in a batch that nobody ends. So each module says
/// where its copy is, in an ELF note, which can be found whatever the module exports. When a module is loaded, it
/// compares its copy with those of all modules that are loaded.

extern "C" {
/// Of a feature, a list that ends with null: weak, for a module may do without it.
[[gnu::weak]] TENURE_OWN extern void const* const tenure_copies_of_background[];
[[gnu::weak]] TENURE_OWN extern void const* const tenure_copies_of_buffers[];
[[gnu::weak]] TENURE_OWN extern void const* const tenure_copies_of_checkpoints[];
[[gnu::weak]] TENURE_OWN extern void const* const tenure_copies_of_paging[];
[[gnu::weak]] TENURE_OWN extern void const* const tenure_copies_of_timing[];
[[gnu::weak]] TENURE_OWN extern void const* const tenure_copies_of_uses[];
}

/// The addresses in one module of everything that a process has once.
struct copy_places {
    int version[3];
    void const* (*made[2])() noexcept;  ///< functions that return further addresses
    void const*        at[18];
    void const* const* of_feature[6];  ///< a feature's own, in modules that have it; else null

    static constexpr copy_places of_this_module() noexcept {
        return {{TENURE_VERSION_MAJOR, TENURE_VERSION_MINOR, TENURE_VERSION_PATCH},
                {[]() noexcept -> void const* { return &this_thread; },
                 []() noexcept -> void const* { return &error_category(); }},
                {
                    &process,
                    &tables,
                    &no_unit,
                    &forks,
                    &cells,
                    &timing_used_anywhere,
                    &over_records,
                    &pending_reclaims,
                    &hazard_slots,
                    &unannounced,
                    &departing,
                    &all_resources,
                    &block_tables,
                    &whoever_comes,
                    &gone_thread,
                    &expiry_logged,
                    &known_buffers,
                    &known_sharing,
                },
                {tenure_copies_of_background, tenure_copies_of_buffers, tenure_copies_of_checkpoints,
                 tenure_copies_of_paging, tenure_copies_of_timing, tenure_copies_of_uses}};
    }

    /// Whether what a feature has once is the same in two modules, which both have the feature.
    static bool are_same(void const* const* mine, void const* const* theirs) noexcept {
        if (!mine || !theirs) return true;
        while (*mine && *mine == *theirs) ++mine, ++theirs;
        return !*mine && !*theirs;
    }

    /// Whether two modules have the same version of tenure and the same addresses. The other must be loaded, and
    /// so relocated.
    bool is_same_as(copy_places const& other) const noexcept {
        if (!std::equal(std::begin(version), std::end(version), std::begin(other.version))) return false;
        for (std::size_t i = 0; i < std::size(made); ++i)
            if (made[i]() != other.made[i]()) return false;
        for (std::size_t i = 0; i < std::size(of_feature); ++i)
            if (!are_same(of_feature[i], other.of_feature[i])) return false;
        return std::equal(std::begin(at), std::end(at), std::begin(other.at));
    }
};

extern "C" {
/// This module's addresses. The note of each module leads to its own.
[[gnu::used]] TENURE_OWN inline constinit copy_places const tenure_copy_places = copy_places::of_this_module();

/// The beginning of this module's note. Using it keeps the linker from dropping the note.
TENURE_OWN extern char const tenure_copy_note[];
}

// The note, of name "tenure" and type 1. Its content is the distance from there to tenure_copy_places.
asm(".pushsection .note.tenure, \"aG\", %note, tenure_copy_note, comdat\n"
    ".balign 4\n"
    ".weak tenure_copy_note\n"
    ".hidden tenure_copy_note\n"
    "tenure_copy_note:\n"
    ".long 7, 8, 1\n"
    ".asciz \"tenure\"\n"
    ".balign 4\n"
    ".quad tenure_copy_places - .\n"
    ".popsection\n");

/// Returns the addresses that a note of tenure's in this segment leads to; null if there is none.
inline copy_places const* places_noted_in(char const* at, std::size_t bytes, std::size_t alignment) noexcept {
    constexpr char        name[] = "tenure";
    constexpr std::size_t head   = 3 * sizeof(std::uint32_t);
    auto const            round  = [&](std::size_t n) { return (n + alignment - 1) / alignment * alignment; };
    while (bytes >= head) {
        std::uint32_t words[3];
        std::memcpy(words, at, head);
        std::size_t const content = round(head + words[0]), whole = round(content + words[1]);
        if (whole > bytes) break;
        if (words[0] == sizeof name && words[1] == sizeof(std::intptr_t) && words[2] == 1 &&
            std::memcmp(at + head, name, sizeof name) == 0) {
            std::intptr_t distance;
            std::memcpy(&distance, at + content, sizeof distance);
            return reinterpret_cast<copy_places const*>(reinterpret_cast<std::intptr_t>(at + content) + distance);
        }
        at += whole;
        bytes -= whole;
    }
    return nullptr;
}

struct copy_search {
    copy_places const* mine;
    char const*        my_path    = nullptr;
    char const*        other_path = nullptr;
};

inline int look_for_copies(::dl_phdr_info* m, std::size_t, void* search) noexcept {
    auto& s = *static_cast<copy_search*>(search);
    for (int i = 0; i < m->dlpi_phnum; ++i) {
        auto const& part = m->dlpi_phdr[i];
        if (part.p_type != PT_NOTE) continue;
        copy_places const* const theirs = places_noted_in(
            reinterpret_cast<char const*>(m->dlpi_addr + part.p_vaddr), part.p_memsz, part.p_align == 8 ? 8 : 4);
        if (theirs == s.mine) s.my_path = m->dlpi_name;
        else if (theirs && !s.mine->is_same_as(*theirs)) s.other_path = m->dlpi_name;
    }
    return 0;
}

/// Ends the process if another loaded module has copies of its own. Called while this module is being loaded,
/// under the dynamic linker's lock, when no other is half loaded. Costs microseconds for each module.
TENURE_COLD inline bool be_the_only_copy(copy_places const& mine, char const* note) noexcept {
    asm volatile("" : : "r"(note));
    copy_search search{&mine};
    ::dl_iterate_phdr(&look_for_copies, &search);
    if (!search.other_path) return true;
    auto const name = [](char const* path) { return path && *path ? path : "the program"; };
    std::fprintf(
        stderr,
        "tenure: %s and %s would each have batches and handles of their own: link the program with "
        "-rdynamic (CMake: ENABLE_EXPORTS); where it does not use tenure, load the first library that does "
        "with RTLD_GLOBAL; compile all with one version of tenure, and load none with RTLD_DEEPBIND\n",
        name(search.my_path), name(search.other_path));
    std::abort();
}

/// Runs the check: each module has one, which is initialised when the module is loaded.
TENURE_OWN inline bool const is_only_copy = be_the_only_copy(tenure_copy_places, tenure_copy_note);

}  // namespace tenure::detail

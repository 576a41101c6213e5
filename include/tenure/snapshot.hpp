// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <tenure/batch.hpp>
#include <tenure/detail/base/printed.hpp>

namespace tenure {

/// Bytes of one registry. `held` is the sum of `retained` over its batches; `held` + `cached` + `tables` is what
/// was taken from the system and not given back.
struct registry_usage {
    std::size_t held   = 0;  ///< in the slabs of batches
    std::size_t cached = 0;  ///< free, ready for the next batch
    std::size_t mapped = 0;  ///< address space
    std::size_t tables = 0;  ///< what is known of units: a tenth of those in which objects were freed one by one
};

/// What a registry has in its page file.
struct paging_info {
    std::string   directory;     ///< where the file is; it has no name there
    std::size_t   out      = 0;  ///< bytes that are out now
    std::size_t   reserved = 0;  ///< bytes of the file, for what is out and for what came back and may go out again
    std::uint64_t written  = 0;  ///< bytes written so far
    std::uint64_t failures = 0;  ///< page-outs that have failed so far
};

/// Ended batches whose destructors the registry's thread is running or will run: reclamation::background.
struct background_info {
    std::size_t batches = 0;
    std::size_t bytes   = 0;  ///< that these batches retain
};

/// What a registry or a batch has in one store.
struct store_info {
    std::string     name;               ///< as the store describes itself
    std::size_t     buffers       = 0;  ///< of the batches
    std::size_t     bytes         = 0;  ///< in these buffers
    std::size_t     slabs         = 0;  ///< bytes of address space for objects
    std::size_t     unfreed       = 0;  ///< blocks, of buffers or of slabs, that the store could not free yet
    std::size_t     unfreed_bytes = 0;
    std::error_code error{};  ///< what it reported then
};

/// How long threads were waiting, which says what a job that is slow lacks. Of several at once each counts.
struct waiting_times {
    std::chrono::nanoseconds memory{};   ///< for room in a memory_budget
    std::chrono::nanoseconds stores{};   ///< for stores whose bytes are elsewhere, for sync(), for the page file
    std::chrono::nanoseconds batches{};  ///< for threads that were changing or moving a batch
};

/// How far a job is, as it said last: batch_scope::progress.
struct progress_info {
    std::uint64_t            done = 0, total = 0;  ///< both 0: it has not said
    double                   rate = 0;             ///< done in a second, lately; 0: not known
    std::chrono::nanoseconds left = no_timeout;    ///< until all is done at that rate; no_timeout: not known
    std::chrono::nanoseconds idle{};               ///< since it said so
};

struct batch_info {
    batch_id                 id;
    batch_id                 parent;  ///< 0: it is the root
    std::string              name;
    batch_status             status  = batch_status::active;
    bool                     guarded = false;  ///< a batch_scope guards it; else somebody must end it by its id
    bool                     in_background = false;  ///< it is over, and its destructors run later
    std::chrono::nanoseconds age{};
    std::source_location     where;  ///< where it was opened
    std::size_t              depth = 0;
    batch_usage              usage;
    std::vector<store_info>  stores;        ///< where it has buffers
    std::error_code          page_error{};  ///< why it could not be paged out when it last should have been
    std::vector<batch_id>    waits_for;     ///< if it is `ending`: see registry::waits_for
    progress_info            progress;
    std::chrono::nanoseconds elapsed{};      ///< its age, and what the job took until the save that it goes on from
    waiting_times            waited;         ///< here and in batches below, also in those that are over
    waiting_times            waited_before;  ///< by the job, until that save

    /// 0 for a batch that somebody opened; else the entry holds what so many batches share.
    std::size_t shared_by = 0;
};

struct json_writer;  // <tenure/json.hpp>

/// A registry at one moment: its live batches, parents before children, older before newer.
struct snapshot {
    registry_usage  memory;
    std::uint64_t   foreign_ends     = 0;  ///< guards destroyed on a thread that did not open them
    std::uint64_t   unordered_ends   = 0;  ///< guards destroyed before others below them on the same thread
    std::uint64_t   failed_rollbacks = 0;  ///< on_exception::rollback, which a store or full memory prevented
    paging_info     paging;
    background_info background;
    std::vector<store_info> stores;  ///< in use by the registry, its own first
    std::vector<batch_info> batches;

    /// Returns the tree for a person to read, one line a batch.
    std::string to_text() const;

    /// Returns the snapshot as JSON. Defined in <tenure/json.hpp>, which needs nlohmann-json.
    template <class Json = json_writer>
    std::string to_json() const {
        static_assert(requires { sizeof(Json); }, "include <tenure/json.hpp> for snapshot::to_json()");
        return Json::write(*this);
    }
};

namespace detail {

inline std::string human_bytes(std::size_t n) {
    static constexpr char const* unit[]{"B", "KiB", "MiB", "GiB", "TiB"};
    std::size_t                  u = 0, tenths = n * 10;
    if (n > static_cast<std::size_t>(-1) / 10) tenths = static_cast<std::size_t>(-1);
    for (; tenths >= 10240 && u < 4; ++u) tenths /= 1024;
    std::string out = std::to_string(tenths / 10);
    if (u > 0) out.append(1, '.').append(std::to_string(tenths % 10));  // not "." + ...: g++ 12 warns (PR105651)
    return out.append(1, ' ').append(unit[u]);
}

/// Appends to a text without a string for each part.
class text_writer {
public:
    explicit text_writer(std::string& out) noexcept : out_(out) {}

    text_writer& operator<<(std::string_view part) {
        out_.append(part);
        return *this;
    }
    text_writer& operator<<(std::uint64_t number) {
        char        digits[20];
        char* const end = digits + sizeof digits;
        char*       at  = end;
        do *--at = static_cast<char>('0' + number % 10);
        while (number /= 10);
        out_.append(at, end);
        return *this;
    }
    /// As id_text().
    text_writer& operator<<(batch_id id) {
        return *this << "#" << record_number(id.value) << "." << (id.value >> record_bits);
    }
    text_writer& bytes(std::size_t n) { return n < 1024 ? *this << n << " B" : *this << human_bytes(n); }
    text_writer& blanks(std::size_t n) {
        out_.append(n, ' ');
        return *this;
    }

private:
    std::string& out_;
};

/// As a person would say it: "1.5 s".
inline std::string human_time(std::chrono::nanoseconds t) {
    double const seconds = std::chrono::duration<double>(t).count();
    if (seconds >= 120) return printed("%.0f min", seconds / 60);
    return seconds < 1 ? printed("%.0f ms", seconds * 1e3) : printed("%.1f s", seconds);
}

inline void describe(text_writer out, progress_info const& p, waiting_times const& waited) {
    if (p.done || p.total) {
        out << ", " << p.done;
        if (p.total) out << " of " << p.total;
        out << " done";
        if (p.rate > 0) out << printed(", %.3g a second", p.rate);
        if (p.left != no_timeout) out << ", " << human_time(p.left) << " left";
    }
    for (auto const& [time, what] : {std::pair(waited.memory, "memory"), std::pair(waited.stores, "stores"),
                                     std::pair(waited.batches, "batches")})
        if (time.count() > 0) out << ", waited " << human_time(time) << " for " << what;
}

inline void describe(text_writer out, batch_info const& b) {
    out << (b.name.empty() ? std::string_view("(no name)") : b.name) << " " << b.id << " " << to_string(b.status);
    if (b.in_background) out << " in the background";
    out << ", " << b.usage.objects << " objects, ";
    out.bytes(b.usage.bytes) << " in use, ";
    out.bytes(b.usage.retained) << " retained, peak ";
    out.bytes(b.usage.peak);
    if (b.usage.paged_out) (out << ", ").bytes(b.usage.paged_out) << " paged out";
    if (b.shared_by) out << ", shared by " << b.shared_by;
    if (b.page_error) out << ", could not be paged out (" << b.page_error.message() << ")";
    for (std::size_t i = 0; i < b.waits_for.size() && i <= 8; ++i) {
        if (i == 8) out << " and " << b.waits_for.size() - i << " more";
        else out << (i ? " " : ", waits for ") << b.waits_for[i];
    }
    describe(out, b.progress,
             {.memory  = b.waited.memory + b.waited_before.memory,
              .stores  = b.waited.stores + b.waited_before.stores,
              .batches = b.waited.batches + b.waited_before.batches});
    auto const ms = std::chrono::duration_cast<std::chrono::milliseconds>(b.age).count();
    out << ", age " << static_cast<std::uint64_t>(ms) << " ms, opened at " << b.where.file_name() << ":"
        << b.where.line() << " in " << function_at(b.where) << "\n";
}
inline std::string describe(batch_info const& b) {
    std::string out;
    describe(text_writer(out), b);
    return out;
}

inline void describe(text_writer out, store_info const& s) {
    out << s.name << ": " << s.buffers << " buffers, ";
    out.bytes(s.bytes);
    if (s.slabs) (out << ", slabs ").bytes(s.slabs);
    if (s.unfreed) {
        out << ", could not free " << s.unfreed << " blocks, ";
        out.bytes(s.unfreed_bytes) << " yet: " << s.error.message();
    }
    out << "\n";
}

}  // namespace detail

inline std::string snapshot::to_text() const {
    std::string out = "held " + detail::human_bytes(memory.held) + ", cached " +
                      detail::human_bytes(memory.cached) + ", mapped " + detail::human_bytes(memory.mapped) +
                      ", tables " + detail::human_bytes(memory.tables) + "\n";
    if (paging.written || paging.failures)
        out += "paged out " + detail::human_bytes(paging.out) + ", written " + detail::human_bytes(paging.written) +
               " to " + paging.directory + ", " + std::to_string(paging.failures) + " failures\n";
    if (background.batches)
        out += "in the background " + std::to_string(background.batches) + " batches, " +
               detail::human_bytes(background.bytes) + "\n";
    detail::text_writer text(out);
    for (store_info const& s : stores)
        if (s.buffers || s.unfreed || &s != stores.data()) describe(text << "store ", s);
    for (std::size_t i = 0, n = batches.size(); i < n; ++i) {
        batch_info const& b = batches[i];
        // Indented without a limit, a chain of 100,000 batches would be 10 GB of blanks.
        constexpr std::size_t deepest = 32;
        std::size_t const     blanks  = std::min(b.depth, deepest) * 2;
        text.blanks(blanks);
        if (b.depth > deepest) text << "(depth " << b.depth << ") ";
        describe(text, b);
        for (store_info const& s : b.stores) describe(text.blanks(blanks + 4), s);
        if (i == n / 64) out.reserve(out.size() / (i + 1) * (n + n / 8));  // the others take about as much
    }
    if (foreign_ends)
        out +=
            "warning: " + std::to_string(foreign_ends) +
            " guards were destroyed on a thread that did not open them; detach() and end_batch(id) cross threads\n";
    if (unordered_ends)
        out += "warning: " + std::to_string(unordered_ends) +
               " guards were destroyed before others that were opened below them on the same thread, and ended "
               "those; in coroutines use batch_owner or bind_batch\n";
    if (failed_rollbacks)
        out += "warning: " + std::to_string(failed_rollbacks) +
               " batches that an exception left could not be rolled back, and ended as they were\n";
    return out;
}

}  // namespace tenure

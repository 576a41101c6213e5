// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

// Opt-in: defines snapshot::to_json(). Needs nlohmann-json (Debian: nlohmann-json3-dev).

#include <string>

#include <nlohmann/json.hpp>

#include <tenure/snapshot.hpp>

namespace tenure {

/// Writes a snapshot as JSON; snapshot::to_json() calls it.
struct json_writer {
    static std::string write(snapshot const& s) {
        nlohmann::ordered_json batches = nlohmann::ordered_json::array();
        auto const             stores  = [](std::vector<store_info> const& all) {
            nlohmann::ordered_json out = nlohmann::ordered_json::array();
            for (store_info const& i : all)
                out.push_back({{"name", i.name},
                               {"buffers", i.buffers},
                               {"bytes", i.bytes},
                               {"slabs", i.slabs},
                               {"unfreed", i.unfreed},
                               {"unfreed_bytes", i.unfreed_bytes},
                               {"error", i.error ? i.error.message() : ""}});
            return out;
        };
        auto const ids = [](std::vector<batch_id> const& all) {
            nlohmann::ordered_json out = nlohmann::ordered_json::array();
            for (batch_id const id : all) out.push_back(detail::id_text(id.value));
            return out;
        };
        auto const time_left = [](progress_info const& p) {
            return p.left == no_timeout ? nlohmann::ordered_json() : nlohmann::ordered_json(p.left.count());
        };
        auto const waits = [](waiting_times const& w) {
            return nlohmann::ordered_json{
                {"memory", w.memory.count()}, {"stores", w.stores.count()}, {"batches", w.batches.count()}};
        };
        for (batch_info const& b : s.batches) {
            batches.push_back({{"id", detail::id_text(b.id.value)},
                               {"parent", b.parent ? nlohmann::ordered_json(detail::id_text(b.parent.value))
                                                   : nlohmann::ordered_json()},
                               {"depth", b.depth},
                               {"name", b.name},
                               {"status", detail::to_string(b.status)},
                               {"guarded", b.guarded},
                               {"in_background", b.in_background},
                               {"age_ns", b.age.count()},
                               {"elapsed_ns", b.elapsed.count()},
                               {"progress",
                                {{"done", b.progress.done},
                                 {"total", b.progress.total},
                                 {"rate", b.progress.rate},
                                 {"left_ns", time_left(b.progress)},
                                 {"idle_ns", b.progress.idle.count()}}},
                               {"waited_ns", waits(b.waited)},
                               {"waited_before_ns", waits(b.waited_before)},
                               {"opened",
                                {{"file", b.where.file_name()},
                                 {"line", b.where.line()},
                                 {"function", detail::function_at(b.where)}}},
                               {"objects", b.usage.objects},
                               {"bytes", b.usage.bytes},
                               {"retained", b.usage.retained},
                               {"peak", b.usage.peak},
                               {"buffers", b.usage.buffers},
                               {"buffer_bytes", b.usage.buffer_bytes},
                               {"paged_out", b.usage.paged_out},
                               {"waits_for", ids(b.waits_for)},
                               {"page_error", b.page_error ? b.page_error.message() : ""},
                               {"shared_by", b.shared_by},
                               {"stores", stores(b.stores)}});
        }
        nlohmann::ordered_json const out{
            {"memory",
             {{"held", s.memory.held},
              {"cached", s.memory.cached},
              {"mapped", s.memory.mapped},
              {"tables", s.memory.tables}}},
            {"foreign_ends", s.foreign_ends},
            {"unordered_ends", s.unordered_ends},
            {"failed_rollbacks", s.failed_rollbacks},
            {"background", {{"batches", s.background.batches}, {"bytes", s.background.bytes}}},
            {"paging",
             {{"directory", s.paging.directory},
              {"out", s.paging.out},
              {"reserved", s.paging.reserved},
              {"written", s.paging.written},
              {"failures", s.paging.failures}}},
            {"stores", stores(s.stores)},
            {"batches", std::move(batches)}};
        // A name may hold any bytes. Those that are not UTF-8 are replaced, not refused.
        return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    }
};

}  // namespace tenure

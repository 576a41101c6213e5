// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#include "figures.hpp"

#include <algorithm>

namespace bench {

namespace {

using number = std::optional<double>;

class list {
public:
    explicit list(results const& all) : all_{all} {}

    number get(std::string const& benchmark, std::string const& name = "ns") const {
        return all_.median(benchmark, name);
    }

    void value(std::string what, number measured, char const* unit, double limit) {
        rows_.push_back({.what = std::move(what), .unit = unit, .limit = limit, .measured = measured});
    }

    void value_at_least(std::string what, number measured, char const* unit, double limit) {
        value(std::move(what), measured, unit, limit);
        rows_.back().at_least = true;
    }

    /// One benchmark's time over another's.
    void ratio(std::string what, std::string const& over, std::string const& under, double limit) {
        auto const a = get(over), b = get(under);
        value(std::move(what), a && b ? number{*a / *b} : number{}, "x", limit);
        if (a && b) rows_.back().from = format("%.4g | %.4g ns", *a, *b);
    }

    /// How many bytes a second, over the other's.
    void rate(std::string what, std::string const& own, std::string const& other, double limit) {
        auto const a = get(own), b = get(other);
        value_at_least(std::move(what), a && b ? number{*b / *a} : number{}, "x", limit);
        if (a && b) rows_.back().from = format("%.4g | %.4g ns", *a, *b);
    }

    void difference(std::string what, std::string const& more, std::string const& less, double limit) {
        auto const a = get(more), b = get(less);
        value(std::move(what), a && b ? number{*a - *b} : number{}, "ns", limit);
        if (a && b) rows_.back().from = format("%.4g | %.4g ns", *a, *b);
    }

    /// How many objects two threads make in the time that one makes one.
    void speedup(std::string what, std::string const& theme, double limit) {
        auto const one = get(theme + "/threads:1"), two = get(theme + "/threads:2");
        value_at_least(std::move(what), one && two ? number{*one / *two} : number{}, "x", limit);
        if (one && two) rows_.back().from = format("%.4g | %.4g ns", *one, *two);
    }

    /// The calls, and by how much they make the two batches' ends longer, for one object kept.
    void keep(std::string what, std::string const& benchmark, double limit) {
        auto const call = get(benchmark), objects = get(benchmark, "objects");
        auto const ends = get(benchmark, "ends_ns"), without = get(benchmark, "ends_without_ns");
        if (!call || !objects || !ends || !without) return value(std::move(what), {}, "ns", limit);
        auto const later = std::max(0.0, *ends - *without) / *objects;
        value(std::move(what), *call + later, "ns", limit);
        rows_.back().from = format("call %.3g + ends %.3g ns", *call, later);
    }

    std::vector<figure> take() { return std::move(rows_); }

private:
    results const&      all_;
    std::vector<figure> rows_;
};

number scaled(number value, double by) { return value ? number{*value * by} : value; }

}  // namespace

std::vector<figure> figures(results const& all) {
    list rows{all};

    auto const thousand = [](char const* peer) { return std::string{"make_end/"} + peer + "/objects:1000"; };
    rows.ratio("make + end, 1,000 a batch / pmr on new/delete", thousand("tenure"), thousand("pmr_new_delete"),
               0.5);
    rows.ratio("make + end, 1,000 a batch / pmr on a warm buffer", thousand("tenure"), thousand("pmr_warm"), 0.65);
    rows.ratio("make + end, 1,000 a batch / bump pointer", thousand("tenure"), thousand("floor"), 2);

    rows.ratio("make, 27,000,000 / pmr on a warm buffer", "huge/tenure", "huge/pmr_warm", 1.02);
    rows.value("end of 27,000,000, memory retained", rows.get("huge/tenure", "end_ms"), "ms", 0.02);
    rows.value("end of 27,000,000, memory returned", rows.get("huge/tenure", "returned_ms"), "ms", 10);
    rows.value("memory of 27,000,000 / their own bytes", rows.get("huge/tenure", "memory"), "x", 1.01);

    rows.ratio("a first request of 64 MB after warm() / a later one", "warm/first/after_warm", "warm/later", 1.1);

    rows.value("open + end an empty batch", rows.get("make_end/tenure/objects:0"), "ns", 12);
    rows.value("open + end with one object", rows.get("make_end/tenure/objects:1"), "ns", 18);
    auto const instructions = [&](char const* what) {
        return rows.get(std::string{"instructions/"} + what, "instructions");
    };
    rows.value("instructions of a make, the loop included", instructions("make/tenure"), "", 13);
    rows.value("instructions of an empty batch", instructions("open_end/tenure"), "", 160);
    rows.value("instructions of a batch with one object", instructions("open_make_end/tenure"), "", 300);
    rows.ratio("a round of 1,000, cleared / in a batch of its own", "rounds/clear/objects:1000",
               "rounds/scope/objects:1000", 0.9);
    rows.value("keep_all() of 1,000,000", scaled(rows.get("rounds/keep_all/objects:1000000"), 1e-3), "us", 50);
    rows.ratio("access through compact handles / handles, L3", "access/L3/independent_compact",
               "access/L3/independent_handle", 1.0);
    rows.ratio("a graph of 10^7 edges, compact handles / raw pointers", "graph/compact", "graph/raw", 1.15);
    rows.ratio("the same, nodes brought in ahead", "graph/compact_ahead", "graph/raw_ahead", 1.15);
    rows.ratio("8 nested batches of 100 / pmr on a warm buffer", "nested/tenure", "nested/pmr_warm", 0.8);

    rows.ratio("100,000 std::string / new/delete", "strings/tenure", "strings/new_delete", 0.25);
    rows.ratio("100,000 std::pmr::string / new/delete", "strings/tenure_pmr", "strings/new_delete", 0.1);

    auto const in_background = rows.get("end_strings/tenure_background");
    rows.value("end of 1,000,000 std::string in the background",
               in_background ? number{*in_background * 1e-3} : number{}, "us", 50);

    rows.ratio("16 to 4096 B, 1 % kept / pmr on a warm buffer", "mixed/tenure", "mixed/pmr_warm", 1.2);
    rows.value_at_least("memory in use or usable after, small objects",
                        rows.get("kept_memory/small_objects", "utilised"), "x", 0.9);
    rows.value_at_least("memory in use or usable after, same sizes", rows.get("kept_memory/same_sizes", "utilised"),
                        "x", 0.9);

    auto const cache = [&](std::string const& what, std::string const& args, double held, double times) {
        rows.value("memory held for what " + what + " / its bytes", rows.get("cache/tenure/" + args, "held"), "x",
                   held);
        rows.value("such a request / one that keeps nothing", rows.get("cache/tenure/" + args, "times"), "x",
                   times);
    };
    cache("each of 20,000 requests of 58 KB keeps, the first object", "every:1/which:0/most:20000/requests:20000",
          2, 1.1);
    cache("the same, the last object", "every:1/which:2/most:20000/requests:20000", 2, 1.1);
    cache("the same, any object", "every:1/which:3/most:20000/requests:20000", 2, 1.1);
    cache("one of 10 of 1,000,000 keeps, freed in random order", "every:10/which:0/most:10000/requests:1000000",
          2.5, 1.2);
    cache("one of 1,000 of them keeps", "every:1000/which:0/most:10000/requests:1000000", 2.5, 1.2);

    rows.keep("keep every object", "keep/tenure/every:1", 8);
    rows.keep("keep every 10th object", "keep/tenure/every:10", 10);
    rows.keep("keep every 100th object", "keep/tenure/every:100", 25);
    rows.keep("keep every object, as a range", "keep_range/tenure/every:1", 15);
    rows.keep("keep every 10th object, as a range", "keep_range/tenure/every:10", 15);
    rows.keep("keep every 100th object, as a range", "keep_range/tenure/every:100", 15);

    for (std::string const in : {"L1", "L2", "L3", "memory"}) {
        rows.ratio("dependent access in " + in + " / raw", "access/" + in + "/chain_handle",
                   "access/" + in + "/chain_raw", 1.05);
    }
    for (std::string const in : {"L1", "L2"}) {
        rows.difference("independent access in " + in + " - raw", "access/" + in + "/independent_handle",
                        "access/" + in + "/independent_raw", 0.25);
    }
    for (std::string const in : {"L3", "memory"}) {
        rows.ratio("independent access in " + in + " / raw", "access/" + in + "/independent_handle",
                   "access/" + in + "/independent_raw", in == "L3" ? 1.5 : 2.0);
    }

    rows.speedup("two threads, lanes of one batch / one thread", "lanes/tenure", 1.95);
    rows.speedup("two threads, a batch each of 1,000 / one thread", "batch_each/tenure/objects:1000", 1.95);
    rows.speedup("two threads, a batch each of 100,000 / one thread", "batch_each/tenure/objects:100000", 1.95);
    for (std::string const count : {"1000", "100000"}) {
        auto const theme = "end_elsewhere/tenure/objects:" + count;
        rows.ratio("end on another thread, " + count + " / on the same", theme + "/threads:2", theme + "/threads:1",
                   1.1);
    }

    rows.difference("a resumption in a batch - without one", "flow/resumption/bound", "flow/resumption/asio", 10);
    rows.difference("open + end a batch with a timeout - without", "flow/batch/supervised", "flow/batch/no_timeout",
                    1000);

    // Records of 10,000 batches fill no cache, whoever uses whom; so beside those that nobody uses.
    auto const growth = [&](std::string const& shape) -> number {
        auto const many = rows.get("using/ends/" + shape + "/objects:10000");
        auto const few  = rows.get("using/ends/" + shape + "/objects:100");
        return many && few ? number{*many / *few} : number{};
    };
    for (std::string const shape : {"chain", "ring"}) {
        auto const used = growth(shape), unused = growth("alone");
        rows.value("an end, 10,000 in a " + shape + " / 100, beside unused",
                   used && unused ? number{*used / *unused} : number{}, "x", 1.5);
    }
    rows.ratio("a turn at an object of 1,000 batches / of 10", "using/interleaved/batches:1000",
               "using/interleaved/batches:10", 2);

    rows.value("pin and release", rows.get("using/pin"), "ns", 25);
    rows.value("share a buffer of 1 GiB with each of 1,000", rows.get("share/buffer/bytes:1073741824"), "ns", 100);

    for (std::string const count : {"1", "1000"}) {
        rows.value("make + end a buffer in a batch with " + count + (count == "1" ? " store" : " stores"),
                   rows.get("many/buffers/stores:" + count), "ns", count == "1" ? 300 : 400);
    }
    for (std::string const how : {"end", "cancel", "expire"}) {
        for (std::string const count : {"1000", "100000", "1000000"}) {
            rows.value(how + " a request and a batch below it, of " + count,
                       scaled(rows.get("many/" + how + "/open:" + count), 1e-3), "us", 0.5);
        }
    }
    rows.value("snapshot of 100,000 requests", scaled(rows.get("many/snapshot/open:100000"), 1e-6), "ms", 20);
    rows.value("its text", scaled(rows.get("many/text/open:100000"), 1e-6), "ms", 20);

    auto const copy = rows.get("undo/memcpy");
    for (std::string const what : {"checkpoint", "rollback"}) {
        auto const cost = scaled(rows.get("undo/rollback/spread", what + "_ms"), 1e6);
        rows.value(what + " of 1 GiB, 1 % changed / memcpy", cost && copy ? number{*cost / *copy} : number{}, "x",
                   what == "checkpoint" ? 0.03 : 0.1);
    }

    rows.ratio("100,000 buffers of 4 KiB, heap_store / malloc", "stores/buffers/heap_store",
               "stores/buffers/malloc", 0.3);
    rows.ratio("100,000 buffers of 4 KiB, mmap_store / a file each", "stores/scratch/mmap_store",
               "stores/scratch/files", 0.1);
    rows.ratio("the same through buffer<T>, heap_store / malloc", "stores/buffers/tenure", "stores/buffers/malloc",
               0.3);
    rows.ratio("the same through buffer<T>, mmap_store / a file each", "stores/scratch/tenure",
               "stores/scratch/files", 0.1);
    rows.difference("read of 8 B through any_store - heap_store", "stores/read/any_store", "stores/read/heap_store",
                    3);
    rows.value("10,000 copies of 100 blocks, stored / different", rows.get("stores/dedup/dedup_store", "stored"),
               "x", 1.05);
    rows.ratio("keep + sync of 1,000 of 64 KiB / write + fdatasync", "stores/durable/keep_sync",
               "stores/durable/write_fdatasync", 1.3);

    rows.rate("page out 1 GiB / pwrite", "paging/out/tenure", "paging/out/pwrite", 0.95);
    rows.ratio("touch every page of it / of a private mapping", "paging/touch/tenure",
               "paging/touch/private_mapping", 2);
    rows.ratio("4 MiB model, out and in / write and read a file", "paging/model/tenure", "paging/model/posix", 0.5);
    rows.ratio("the same, all of it changed each time", "paging/model_changed/tenure", "paging/model_changed/posix",
               0.5);

    for (std::string const how : {"unix", "tcp"}) {
        auto const side = [&](char const* what, char const* whose) {
            return std::string{"remote/"} + what + '/' + how + '/' + whose;
        };
        auto const row = [&](char const* what) {
            return std::string{what} + (how == "tcp" ? ", TCP / raw" : ", Unix / raw");
        };
        rows.rate(row("write of 64 MiB to a server"), side("write", "tenure"), side("write", "raw"), 0.9);
        rows.rate(row("read of 64 MiB"), side("read", "tenure"), side("read", "raw"), how == "unix" ? 1.0 : 0.9);
        rows.rate(row("4 KiB reads, 64 in flight") + " echo", side("reads", "tenure"), side("reads", "raw_each"),
                  0.7);
        rows.rate(row("the same") + ", all gathered", side("reads", "tenure"), side("reads", "raw"), 0.7);
        rows.ratio(row("one 4 KiB read"), side("round_trip", "tenure"), side("round_trip", "raw"), 1.1);
    }
    rows.value("100,000 small buffers at a server, each", scaled(rows.get("remote/buffers/tenure"), 1e-3), "us", 3);
    rows.value("end of that batch", rows.get("remote/buffers/tenure", "end_ms"), "ms", 5);
    rows.value("client's memory for 1,000,000, as buffers, each",
               rows.get("remote/client_memory/tenure", "batch_bytes"), "B", 64);
    rows.value("server's memory afterwards, of what clients had", rows.get("remote/server_memory/tenure", "left"),
               "x", 0.02);

    rows.value("reserve and release", rows.get("budget/reserve"), "ns", 60);
    rows.value("the same of a share of a machine", rows.get("budget/reserve/share"), "ns", 1000);
    rows.value("from a release to who waited, p99", rows.get("budget/wake", "p99_us"), "us", 100);
    rows.value("the same in another process, p99", rows.get("budget/wake/elsewhere", "p99_us"), "us", 1000);
    rows.value("from a death to another that waited, p99", rows.get("budget/wake/crash", "p99_us"), "us", 100'000);

    rows.value("#include <tenure/tenure.hpp>", scaled(rows.get("include/tenure/tenure.hpp"), 1e-9), "s", 0.7);
    return rows.take();
}

}  // namespace bench

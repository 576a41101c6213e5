// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Buffers of a server in another process, beside raw sockets that carry the same bytes (remote_raw.cpp).

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <benchmark/benchmark.h>
#include <boost/asio/io_context.hpp>
#include <tenure/remote/client.hpp>
#include <tenure/remote/server.hpp>
#include <tenure/store/heap.hpp>
#include <tenure/tenure.hpp>

#include "child.hpp"
#include "remote.hpp"

namespace {

using bench::carrier;
using bench::check;
using bench::measure;
using tenure::block;

/// What a client shows where TCP demands that it does.
tenure::tokens known() {
    tenure::tokens all;
    all.add("bench", "a token that is no secret");
    return all;
}

/// A server in a process of its own.
class server {
public:
    explicit server(carrier how) {
        int ends[2];
        check(::pipe(ends) == 0, "pipe");
        std::string const wanted =
            how == carrier::tcp ? "tcp:127.0.0.1:0" : "unix:" + (directory_.path() / "socket").string();
        process_.emplace([&] {
            boost::asio::io_context io{1};
            tenure::server_options  options;
            options.tokens = known();
            tenure::buffer_server all{io.get_executor(), std::make_shared<tenure::heap_store>(), options};
            auto const            where = all.listen(tenure::endpoint(wanted)).to_text();
            check(::write(ends[1], where.data(), where.size()) == std::ssize(where), "write");
            io.run();
        });
        std::array<char, 256> text{};
        auto const            n = ::read(ends[0], text.data(), text.size());
        ::close(ends[0]);
        ::close(ends[1]);
        check(n > 0, "the server did not start");
        where_.assign(text.data(), static_cast<std::size_t>(n));
    }

    std::shared_ptr<tenure::remote_store> connect() const {
        tenure::client_options options;
        options.tokens = known();
        return tenure::remote_store::connect(tenure::endpoint(where_), options);
    }
    std::size_t resident_bytes() const { return process_->resident_bytes(); }

private:
    bench::scratch_directory    directory_;
    std::string                 where_;
    std::optional<bench::child> process_;
};

block warm_block(tenure::remote_store& store, std::span<std::byte const> contents) {
    auto const b = store.allocate(contents.size(), 64).value();
    store.write(b, 0, contents).value();
    return b;
}

/// transfer_bytes with one call, which is `move(store, block, memory)`.
template <class Move>
void transfer(benchmark::State& state, carrier how, Move move) {
    server const             there{how};
    auto const               store = there.connect();
    bench::warm_buffer const memory{bench::transfer_bytes};
    std::span const          all{memory.data(), bench::transfer_bytes};
    auto const               b = warm_block(*store, all);
    measure(state, 1, [&] { move(*store, b, all).value(); });
}
void write(benchmark::State& state, carrier how) {
    transfer(state, how, [](auto& store, block b, auto from) { return store.write(b, 0, from); });
}
void read(benchmark::State& state, carrier how) {
    transfer(state, how, [](auto& store, block b, auto into) { return store.read(b, 0, into); });
}

/// One block, of which the small reads are parts, as remote_raw.cpp has it.
std::size_t offset_of(std::size_t i) { return i * 7919 % 1024 * bench::small_bytes; }

using small_memory = std::array<std::byte, bench::small_bytes>;

void reads(benchmark::State& state, carrier how) {
    server const              there{how};
    auto const                store = there.connect();
    std::vector<std::byte>    contents(1024 * bench::small_bytes);
    auto const                b = warm_block(*store, contents);
    std::vector<small_memory> out(bench::in_flight);

    // Each answer asks for the next: so as many are under way at all times. All handlers run one after the other.
    struct round {
        tenure::remote_store&      store;
        block                      from;
        std::vector<small_memory>& out;
        std::size_t                asked = 0, answered = 0;
        std::atomic<bool>          done{false};

        void next(std::size_t slot) {
            store.async_read(from, offset_of(asked++), out[slot], [this, slot](boost::system::error_code why) {
                check(!why, "read");
                ++answered;
                if (asked < bench::small_reads) return next(slot);
                if (answered != bench::small_reads) return;
                done = true;
                done.notify_one();
            });
        }
    };
    measure(state, bench::small_reads, [&] {
        round r{*store, b, out};
        for (std::size_t slot = 0; slot != bench::in_flight; ++slot) r.next(slot);
        r.done.wait(false);
    });
}

void round_trip(benchmark::State& state, carrier how) {
    server const           there{how};
    auto const             store = there.connect();
    std::vector<std::byte> contents(1024 * bench::small_bytes);
    auto const             b = warm_block(*store, contents);
    small_memory           out;
    measure(state, bench::round_trips, [&] {
        for (std::size_t i = 0; i != bench::round_trips; ++i) store->read(b, offset_of(i), out).value();
    });
}

auto const registered = bench::register_remote({"tenure", write, read, reads, round_trip});

/// Small buffers of a batch, made one by one in a loop; and its end, which is one request.
void buffers(benchmark::State& state) {
    server const     there{carrier::unix_socket};
    tenure::registry registry;
    auto const       store  = there.connect();
    double           end    = 0;
    std::size_t      rounds = 0;
    auto const       round  = [&](bool counts) {
        std::optional<tenure::batch_scope> batch{std::in_place, registry};
        auto const                         start = bench::clock::now();
        for (std::size_t i = 0; i != bench::buffers_made; ++i)
            bench::use(batch->make_buffer<std::byte>(bench::buffer_size, store).block().id);
        auto const made = bench::clock::now();
        batch.reset();
        auto const ended = bench::clock::now();
        if (!counts) return 0.0;
        end += bench::seconds{ended - made}.count();
        ++rounds;
        return bench::seconds{made - start}.count();
    };
    round(false);
    for (auto _ : state) state.SetIterationTime(round(true));
    check(store->usage().blocks == 0, "the batch is gone");
    state.counters["objects"] = static_cast<double>(bench::buffers_made);
    state.counters["end_ms"]  = end / static_cast<double>(rounds) * 1e3;
}
BENCHMARK(buffers)->Name("remote/buffers/tenure")->Unit(benchmark::kMillisecond)->UseManualTime();

/// The same of `sizes` sizes in turn, which follow no order; with one size, that of them in the middle.
void buffers_of_sizes(benchmark::State& state) {
    server const      there{carrier::unix_socket};
    tenure::registry  registry;
    auto const        store = there.connect();
    std::size_t const sizes = static_cast<std::size_t>(state.range(0)), widest = 961;
    auto const        size_of = [&](std::size_t i) {
        return sizes == 1 ? bench::least_mixed + widest / 2
                                 : bench::least_mixed + i * 7919 % sizes * (widest / sizes);
    };
    measure(state, bench::buffers_made, [&] {
        tenure::batch_scope batch{registry};
        for (std::size_t i = 0; i != bench::buffers_made; ++i)
            bench::use(batch.make_buffer<std::byte>(size_of(i), store).block().id);
    });
    check(store->usage().blocks == 0, "the batch is gone");
    check(store->usage().bytes == 0, "and with it all bytes");
}
BENCHMARK(buffers_of_sizes)
    ->Name("remote/buffers_of_sizes/tenure")
    ->Arg(1)
    ->Arg(8)
    ->Arg(16)
    ->Arg(64)
    ->Arg(961)
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

/// What this process needs to know a million buffers by: as blocks of the store, and as buffers of a batch.
void client_memory(benchmark::State& state) {
    constexpr std::size_t million = 1'000'000;
    server const          there{carrier::unix_socket};
    for (auto _ : state) {
        double by_store = 0, by_batch = 0;
        {
            auto const         store = there.connect();
            std::vector<block> all(million, block{1, 1});
            auto const         before = bench::resident_bytes();
            for (auto& each : all) each = store->allocate_in(1, 64, 16).value();
            by_store = static_cast<double>(bench::resident_bytes() - before);
            store->deallocate_batch(1, all).value();
        }
        {
            tenure::registry    registry;
            auto const          store  = there.connect();
            auto const          before = bench::resident_bytes();
            tenure::batch_scope batch{registry};
            for (std::size_t i = 0; i != million; ++i)
                bench::use(batch.make_buffer<std::byte>(64, store).block().id);
            by_batch = static_cast<double>(bench::resident_bytes() - before);
        }
        state.counters["store_bytes"] =
            std::max(by_store, 4096.0) / million;  // a page is as near as it can be told
        state.counters["batch_bytes"] = by_batch / million;
    }
}
BENCHMARK(client_memory)->Name("remote/client_memory/tenure")->Iterations(1)->Unit(benchmark::kMillisecond);

/// Clients come, have much, and go; what the server still holds then.
void server_memory(benchmark::State& state) {
    server const there{carrier::unix_socket};
    auto const   client = [&](std::size_t buffers, std::size_t bytes) {
        auto const             store = there.connect();
        std::vector<std::byte> contents(bytes, std::byte{1});
        for (std::size_t i = 0; i != buffers; ++i)
            store->write(store->allocate_in(1 + i % 7, bytes, 64).value(), 0, contents).value();
    };
    for (auto _ : state) {
        client(16, 4096);
        auto const settle = [] {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        };  // it says goodbye first
        settle();
        auto const  before = there.resident_bytes();
        std::size_t peak   = 0;
        {
            std::vector<std::shared_ptr<tenure::remote_store>> held;
            for (int i = 0; i != 4; ++i) {
                held.push_back(there.connect());
                auto const contents = std::vector<std::byte>(bench::transfer_bytes, std::byte{1});
                held.back()->write(held.back()->allocate(contents.size(), 64).value(), 0, contents).value();
            }
            client(20'000, 4096);
            peak = there.resident_bytes();
        }
        settle();
        auto const after         = there.resident_bytes();
        state.counters["before"] = static_cast<double>(before);
        state.counters["peak"]   = static_cast<double>(peak);
        state.counters["after"]  = static_cast<double>(after);
        state.counters["ratio"]  = static_cast<double>(after) / static_cast<double>(before);
        state.counters["left"]   = static_cast<double>(after - before) / static_cast<double>(peak - before);
    }
}
BENCHMARK(server_memory)->Name("remote/server_memory/tenure")->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace

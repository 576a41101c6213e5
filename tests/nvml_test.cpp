// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Readings of NVML, from a library of the tests that answers as NVIDIA's does, and from that one where it is.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <tenure/device/nvml.hpp>
#include <tenure/device/scheduler/memory_aware.hpp>

#include "nvml/fake_nvml.hpp"
#include "throws.hpp"

namespace {

using namespace tenure;

constexpr unsigned long long unknown = ~0ull;

/// The fake, with two devices.
class driver {
public:
    driver() : loaded_(::dlopen(FAKE_NVML, RTLD_NOW | RTLD_LOCAL)) {
        REQUIRE(loaded_);
        says                = static_cast<fake_nvml_state*>(::dlsym(loaded_, "fake_nvml"));
        *says               = {};
        says->count         = 2;
        says->process_bytes = 24;
        for (auto& d : says->devices) d.total = 1000, d.free = 900;
    }
    ~driver() {
        CHECK(says->initialised == 0);
        ::dlclose(loaded_);
    }
    driver(driver const&)            = delete;
    driver& operator=(driver const&) = delete;

    fake_nvml_state* says = nullptr;

private:
    void* loaded_;
};

memory_reading read(nvml_memory const& nvml, std::vector<process_id> const& asked = {}) {
    return nvml(asked).value();
}

/// A process that waits to be told to go.
class child {
public:
    child() {
        int ends[2];
        REQUIRE(::pipe(ends) == 0);
        pid_ = ::fork();
        REQUIRE(pid_ >= 0);
        if (pid_ == 0) {
            ::close(ends[1]);
            char nothing;
            std::ignore = ::read(ends[0], &nothing, 1);
            ::_exit(0);
        }
        ::close(ends[0]);
        go_ = ends[1];
    }
    ~child() { ::waitpid(pid_, nullptr, 0); }
    child(child const&)            = delete;
    child& operator=(child const&) = delete;

    process_id id() const noexcept { return {static_cast<std::uint64_t>(pid_)}; }

    /// It is over, and nobody has waited for it.
    void go() const {
        ::close(go_);
        siginfo_t how{};
        REQUIRE(::waitid(P_PID, static_cast<id_t>(pid_), &how, WEXITED | WNOWAIT) == 0);
    }

private:
    pid_t pid_ = 0;
    int   go_  = -1;
};

}  // namespace

TEST_CASE("no library, or one of something else: device_unavailable, and the reason") {
    check_throws(errc::device_unavailable, {"libno-such-library.so.1", "cannot open shared object file"},
                 [] { nvml_memory("libno-such-library.so.1"); });
    check_throws(errc::device_unavailable, {"libm.so.6", "nvmlInit_v2"}, [] { nvml_memory("libm.so.6"); });
}

TEST_CASE("a driver that does not start: device_unavailable, and what it says") {
    driver d;
    d.says->init_says = 9;
    check_throws(errc::device_unavailable, {"nvmlInit_v2", "the NVIDIA driver is not loaded"},
                 [] { nvml_memory(FAKE_NVML); });
    d.says->init_says  = 0;
    d.says->count_says = 999;
    check_throws(errc::device_unavailable, {"nvmlDeviceGetCount_v2", "NVML error 999"},
                 [] { nvml_memory(FAKE_NVML); });
}

TEST_CASE("free memory and processes, whatever size the driver has for one") {
    driver            d;
    nvml_memory const nvml(FAKE_NVML);
    CHECK(nvml.device_count() == 2);
    d.says->devices[1].free = 123;
    CHECK(read(nvml).devices.at(0).processes == std::vector<process_use>{});
    for (unsigned const bytes : {16u, 24u, 32u}) {
        d.says->process_bytes = bytes;
        for (unsigned const count : {1u, 2u, 3u, 64u, 65u, 300u}) {
            auto& at = d.says->devices[1];
            at.count = count;
            for (unsigned i = 0; i < count; ++i) at.processes[i] = {1000 + i, i % 2 ? unknown : i * 10};
            memory_reading const r = read(nvml);
            CHECK(r.devices.size() == 2);
            CHECK(r.devices[1].device == device_id{1});
            CHECK(r.devices[1].free == 123);
            CHECK(r.devices[1].total == 1000);
            REQUIRE(r.devices[1].processes);
            REQUIRE(r.devices[1].processes->size() == count);
            for (unsigned i = 0; i < count; ++i) {
                process_use const& p = (*r.devices[1].processes)[i];
                CHECK(p.process == process_id{1000 + i});
                CHECK(p.bytes == (i % 2 ? std::nullopt : std::optional<std::size_t>(i * 10)));
            }
        }
    }
    d.says->devices[1].processes[0].bytes = 0xa5c3'96e1'5a3c'691e;  // as if the driver had not written it
    CHECK(read(nvml).devices[1].processes->at(0).bytes == std::nullopt);

    nvml_memory const another = nvml;  // NOLINT(performance-unnecessary-copy-initialization): shares the library
    CHECK(d.says->initialised == 1);
}

TEST_CASE("what the driver does not tell is not known, and never zero") {
    driver            d;
    nvml_memory const nvml(FAKE_NVML);
    d.says->devices[0].memory_says = 15;
    memory_reading r               = read(nvml);
    CHECK(r.devices.at(0).free == std::nullopt);
    CHECK(r.devices.at(0).total == std::nullopt);
    CHECK(r.devices.at(0).processes == std::nullopt);
    CHECK(r.devices.at(0).why == std::error_code(15, nvml_category()));
    CHECK(r.devices.at(0).why.message() == "the device has fallen off its bus: it must be reset");
    CHECK(r.devices.at(1).free == 900);
    CHECK_FALSE(r.devices.at(1).why);

    d.says->devices[0].memory_says   = 0;
    d.says->devices[0].free          = unknown;
    d.says->devices[1].processes_say = 3;
    r                                = read(nvml);
    CHECK(r.devices.at(0).free == std::nullopt);
    CHECK(r.devices.at(0).total == 1000);
    CHECK(r.devices.at(1).free == 900);
    CHECK(r.devices.at(1).processes == std::nullopt);

    d.says->devices[1].processes_say = 0;
    d.says->devices[1].count         = 3;
    d.says->process_bytes            = 8;  // too little to tell
    CHECK(read(nvml).devices.at(1).processes == std::nullopt);
}

TEST_CASE("a driver that says more processes than there was room for is not believed, and not asked for ever") {
    driver            d;
    nvml_memory const nvml(FAKE_NVML);
    auto&             at = d.says->devices[0];
    at.count             = 3;
    for (unsigned const more : {65u, 1000u, 1u << 20, 1u << 31, ~0u}) {
        at.claims = more;
        CHECK(read(nvml).devices.at(0).processes == std::nullopt);
    }
    at.claims = 64;  // it fits, but the driver has written three
    CHECK(read(nvml).devices.at(0).processes == std::nullopt);
    at.claims = 0;
    for (unsigned const more :
         {(1u << 20) + 1, 1u << 31, (1u << 31) + 8, ~0u}) {  // twice that is little, or nothing
        at.count = more;
        at.asked = 0;
        CHECK(read(nvml).devices.at(0).processes == std::nullopt);
        CHECK(at.asked == 1);
    }
}

TEST_CASE("a driver that says more devices than a machine can have is not believed") {
    driver d;
    for (unsigned const more : {1025u, 1u << 31, ~0u}) {
        d.says->count = more;
        check_throws(errc::device_unavailable, {"nvmlDeviceGetCount_v2", std::to_string(more).c_str()},
                     [] { nvml_memory(FAKE_NVML); });
    }
    d.says->count = 2;
}

TEST_CASE("a device that cannot be reached at all is not known, and the others are") {
    driver d;
    d.says->devices[0].handle_says = 4;
    nvml_memory const nvml(FAKE_NVML);
    CHECK(read(nvml).devices.at(0).why.message() == "no permission");
    CHECK(read(nvml).devices.at(1).free == 900);
}

TEST_CASE("a process that is over is told, even if nobody has waited for it") {
    driver            d;
    nvml_memory const nvml(FAKE_NVML);
    process_id const  me{static_cast<std::uint64_t>(::getpid())}, no_pid{std::uint64_t{1} << 40};
    child const       c;
    CHECK(read(nvml, {me, c.id(), no_pid}).ended.empty());
    c.go();
    CHECK(read(nvml, {me, c.id(), no_pid}).ended == std::vector{c.id()});
}

TEST_CASE("a scheduler over it") {
    driver       d;
    memory_aware s{nvml_memory(FAKE_NVML)};
    child const  c;
    CHECK(s.pick({.kind = "train", .bytes = 800, .process = c.id()}) == device_id{0});
    CHECK(s.pick({.kind = "train", .bytes = 800}) == device_id{1});
    CHECK(s.pick({.kind = "train", .bytes = 800}) == std::nullopt);
    auto& at        = d.says->devices[0];
    at.free         = 400;
    at.count        = 1;
    at.processes[0] = {static_cast<unsigned>(c.id().value), unknown};
    s.refresh();
    CHECK(s.figures().devices.at(0).reserved == 800);
    at.processes[0].bytes = 500;
    s.refresh();
    CHECK(s.figures().devices.at(0).reserved == 300);
    c.go();
    at.count = 0;
    at.free  = 900;
    CHECK(s.pick({.kind = "train", .bytes = 900}) == device_id{0});
    CHECK(s.estimate("train") == 700);  // (900 + 500) / 2
}

TEST_CASE("NVIDIA's own library") {
    try {
        nvml_memory const    nvml;
        memory_reading const r = read(nvml);
        CHECK(r.devices.size() == nvml.device_count());
        for (device_reading const& d : r.devices) {
            MESSAGE(to_string(d.device) << ": " << d.free.value_or(0) << " of " << d.total.value_or(0)
                                        << " bytes free, " << (d.processes ? d.processes->size() : 0)
                                        << " processes, " << std::string(d.processes ? "told" : "not told"));
            CHECK(d.free <= d.total);
        }
    } catch (error const& e) {
        CHECK(e.code() == errc::device_unavailable);
        std::string const why = e.what();
        MESSAGE("skipped: " << why);
    }
}

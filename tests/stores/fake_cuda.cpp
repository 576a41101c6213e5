// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Stands in for libcuda.so.1 in tests: what cuda_device calls, over this machine's memory, and more suspicious than
// the real one.
//   - An address of its memory is none of the process: who follows one crashes.
//   - What is asked of a stream happens when somebody waits for it, no sooner: who does not wait, or reuses memory
//     too early, finds other bytes than he expects.
//   - Every call wants a current context; addresses must lie within one allocation; streams and events must live.
// It counts what is out, fails on request, and after fake_cuda_lose() refuses everything, as CUDA does after a wild
// kernel. There are two devices.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <vector>

struct CUctx_st {
    int device   = 0;
    int retained = 0;
};
struct CUstream_st {
    CUctx_st*                         context = nullptr;
    std::deque<std::function<void()>> waiting;
    std::uint64_t                     asked = 0, done = 0;
};
struct CUevent_st {
    CUstream_st*  stream = nullptr;
    std::uint64_t upto   = 0;
};

namespace {

enum : int {
    success          = 0,
    invalid_value    = 1,
    out_of_memory    = 2,
    not_initialized  = 3,
    invalid_device   = 101,
    invalid_context  = 201,
    illegal_address  = 700,
    resource_handles = 400,
};

struct allocation {
    std::byte*  memory;
    std::size_t bytes;
    CUctx_st*   context;
};

struct state {
    std::mutex                           mutex;
    bool                                 initialized = false;
    CUctx_st                             contexts[2]{{0, 0}, {1, 0}};
    std::map<std::uint64_t, allocation>  device;
    std::map<std::uint64_t, std::size_t> locked;
    std::set<CUstream_st*>               streams;
    std::set<CUevent_st*>                events;
    std::size_t                          memory   = std::size_t{1} << 30;
    std::size_t                          taken    = 0;
    int                                  lost     = success;
    int                                  fails    = success;  ///< what the call in question says
    long                                 calls    = -1;       ///< until then; -1: none
    std::uint64_t                        straight = 0;  ///< transfers of page-locked memory that is the caller's
};

state& all() {
    static state s;
    return s;
}

thread_local std::vector<CUctx_st*> current;

constexpr std::uint64_t tag = std::uint64_t{1} << 60;  // no address of a process has that bit

/// Whether the call can go on; the lock is held.
int enter(bool wants_context = true) {
    state& s = all();
    if (s.lost) return s.lost;
    if (!s.initialized) return not_initialized;
    if (wants_context && (current.empty() || current.back()->retained == 0)) return invalid_context;
    if (s.calls >= 0 && s.calls-- == 0) return s.fails;
    return success;
}

/// The memory behind it; null: not all of it lies in one allocation. (The real one reports that much later.)
std::byte* at(unsigned long long address, std::size_t bytes, CUctx_st* context = nullptr) {
    auto i = all().device.upper_bound(address);
    if (i == all().device.begin()) return nullptr;
    --i;
    std::uint64_t const offset = address - i->first;
    if (offset > i->second.bytes || bytes > i->second.bytes - offset) return nullptr;
    if (context && i->second.context != context) return nullptr;
    return i->second.memory + offset;
}

void run(CUstream_st& s, std::uint64_t upto) {
    while (s.done < upto) {
        s.waiting.front()();
        s.waiting.pop_front();
        ++s.done;
    }
}

int ask(CUstream_st* s, std::function<void()> f) {
    if (!all().streams.contains(s)) return resource_handles;
    s->waiting.push_back(std::move(f));
    ++s->asked;
    return success;
}

bool is_locked(void const* p, std::size_t bytes) {
    auto const at = reinterpret_cast<std::uint64_t>(p);
    auto       i  = all().locked.upper_bound(at);
    return i != all().locked.begin() && at + bytes <= std::prev(i)->first + std::prev(i)->second;
}

#define ENTER(...)                             \
    std::scoped_lock const guard(all().mutex); \
    if (int const code = enter(__VA_ARGS__)) return code

}  // namespace

extern "C" {

// What tests ask of it.
void fake_cuda_reset(std::size_t memory) {
    std::scoped_lock const guard(all().mutex);
    all().lost     = success;
    all().calls    = -1;
    all().memory   = memory;
    all().straight = 0;
}
void fake_cuda_lose() {
    std::scoped_lock const guard(all().mutex);
    all().lost = illegal_address;
}
/// What was lost with the device, a driver takes back with the process.
void fake_cuda_sweep() {
    std::scoped_lock const guard(all().mutex);
    for (auto const& [address, a] : all().device) std::free(a.memory - 512);
    all().device.clear();
    all().taken = 0;
}
void fake_cuda_fail(long after, int code) {
    std::scoped_lock const guard(all().mutex);
    all().calls = after;
    all().fails = code;
}
/// Whether the call that was to fail has not come yet.
bool        fake_cuda_failed() { return all().calls < 0; }
std::size_t fake_cuda_bytes() { return all().taken; }
std::size_t fake_cuda_allocations() { return all().device.size(); }
std::size_t fake_cuda_straight() { return all().straight; }
/// Streams, events, page-locked pieces, retained contexts and contexts of this thread that are out.
std::size_t fake_cuda_objects() {
    state& s = all();
    return s.streams.size() + s.events.size() + s.locked.size() + current.size() +
           static_cast<std::size_t>(s.contexts[0].retained + s.contexts[1].retained);
}

int cuInit(unsigned) {
    std::scoped_lock const guard(all().mutex);
    all().initialized = true;
    return all().lost;
}
int cuGetErrorName(int code, char const** name) {
    switch (code) {
    case invalid_value: *name = "CUDA_ERROR_INVALID_VALUE"; break;
    case out_of_memory: *name = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case illegal_address: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
    case invalid_context: *name = "CUDA_ERROR_INVALID_CONTEXT"; break;
    default: return invalid_value;
    }
    return success;
}
int cuDeviceGetCount(int* n) {
    ENTER(false);
    *n = 2;
    return success;
}
int cuDeviceGet(int* device, int number) {
    ENTER(false);
    if (number < 0 || number > 1) return invalid_device;
    *device = number;
    return success;
}
int cuDeviceGetName(char* name, int bytes, int) {
    ENTER(false);
    std::strncpy(name, "stand-in for a GPU", static_cast<std::size_t>(bytes));
    return success;
}
int cuDevicePrimaryCtxRetain(CUctx_st** context, int device) {
    ENTER(false);
    *context = &all().contexts[device];
    ++(*context)->retained;
    return success;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
    std::scoped_lock const guard(all().mutex);
    --all().contexts[device].retained;
    return all().lost;
}
int cuCtxPushCurrent_v2(CUctx_st* context) {
    std::scoped_lock const guard(all().mutex);
    current.push_back(context);
    return success;
}
int cuCtxPopCurrent_v2(CUctx_st** context) {
    std::scoped_lock const guard(all().mutex);
    if (current.empty()) return invalid_context;
    *context = current.back();
    current.pop_back();
    return success;
}
int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
    ENTER();
    *total = all().memory;
    *free  = all().memory - all().taken;
    return success;
}
int cuMemAlloc_v2(unsigned long long* address, std::size_t bytes) {
    ENTER();
    if (bytes == 0) return invalid_value;
    if (bytes > all().memory - all().taken) return out_of_memory;
    // At an odd multiple of 512, which is the least that CUDA's are aligned to.
    auto* const raw = static_cast<std::byte*>(std::aligned_alloc(1024, (bytes + 512 + 1023) / 1024 * 1024));
    if (!raw) return out_of_memory;
    std::byte* const memory = raw + 512;
    *address                = reinterpret_cast<std::uint64_t>(memory) | tag;
    all().taken += bytes;
    all().device[*address] = {memory, bytes, current.back()};
    return success;
}
int cuMemFree_v2(unsigned long long address) {
    std::scoped_lock const guard(all().mutex);
    auto const             i = all().device.find(address);
    int const              r = enter();
    if (i == all().device.end()) return invalid_value;
    all().taken -= i->second.bytes;  // also where it says something else
    std::free(i->second.memory - 512);
    all().device.erase(i);
    return r;
}
int cuMemHostAlloc(void** p, std::size_t bytes, unsigned) {
    ENTER();
    *p = std::malloc(bytes);
    if (!*p) return out_of_memory;
    all().locked[reinterpret_cast<std::uint64_t>(*p)] = bytes;
    return success;
}
int cuMemFreeHost(void* p) {
    std::scoped_lock const guard(all().mutex);
    if (all().locked.erase(reinterpret_cast<std::uint64_t>(p)) == 0) return invalid_value;
    std::free(p);
    return all().lost;
}
int cuMemcpyPeerAsync(unsigned long long to, CUctx_st* to_context, unsigned long long from, CUctx_st* from_context,
                      std::size_t bytes, CUstream_st* stream) {
    ENTER();
    std::byte* const target = at(to, bytes, to_context);
    std::byte* const source = at(from, bytes, from_context);
    if (!target || !source) return all().lost = illegal_address;
    return ask(stream, [=] { std::memcpy(target, source, bytes); });
}
int cuMemcpyHtoDAsync_v2(unsigned long long to, void const* from, std::size_t bytes, CUstream_st* stream) {
    ENTER();
    std::byte* const target = at(to, bytes);
    if (!target) return all().lost = illegal_address;
    if (is_locked(from, bytes) && bytes > std::size_t{4} << 20) ++all().straight;  // more than a half holds
    return ask(stream, [=] { std::memcpy(target, from, bytes); });
}
int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, std::size_t bytes, CUstream_st* stream) {
    ENTER();
    std::byte* const source = at(from, bytes);
    if (!source) return all().lost = illegal_address;
    if (is_locked(to, bytes) && bytes > std::size_t{4} << 20) ++all().straight;
    return ask(stream, [=] { std::memcpy(to, source, bytes); });
}
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, std::size_t bytes, CUstream_st* stream) {
    ENTER();
    std::byte *const target = at(to, bytes), *const source = at(from, bytes);
    if (!target || !source) return all().lost = illegal_address;
    return ask(stream, [=] { std::memcpy(target, source, bytes); });
}
int cuMemsetD8Async(unsigned long long to, unsigned char value, std::size_t bytes, CUstream_st* stream) {
    ENTER();
    std::byte* const target = at(to, bytes);
    if (!target) return all().lost = illegal_address;
    return ask(stream, [=] { std::memset(target, value, bytes); });
}
int cuPointerGetAttribute(void* value, int attribute, unsigned long long p) {
    ENTER();
    if (attribute != 2 || !is_locked(reinterpret_cast<void const*>(p), 1)) return invalid_value;
    unsigned const host = 1;
    std::memcpy(value, &host, sizeof host);
    return success;
}
int cuStreamCreate(CUstream_st** stream, unsigned) {
    ENTER();
    *stream = new CUstream_st{current.back(), {}, 0, 0};
    all().streams.insert(*stream);
    return success;
}
int cuStreamSynchronize(CUstream_st* stream) {
    std::scoped_lock const guard(all().mutex);
    if (!all().streams.contains(stream)) return resource_handles;
    run(*stream, stream->asked);
    return enter();
}
int cuStreamDestroy_v2(CUstream_st* stream) {
    std::scoped_lock const guard(all().mutex);
    if (all().streams.erase(stream) == 0) return resource_handles;
    run(*stream, stream->asked);
    delete stream;
    return all().lost;
}
int cuEventCreate(CUevent_st** event, unsigned) {
    ENTER();
    *event = new CUevent_st;
    all().events.insert(*event);
    return success;
}
int cuEventRecord(CUevent_st* event, CUstream_st* stream) {
    ENTER();
    if (!all().events.contains(event) || !all().streams.contains(stream)) return resource_handles;
    event->stream = stream;
    event->upto   = stream->asked;
    return success;
}
int cuEventSynchronize(CUevent_st* event) {
    ENTER();
    if (!all().events.contains(event)) return resource_handles;
    if (event->stream) run(*event->stream, event->upto);
    return success;
}
int cuEventDestroy_v2(CUevent_st* event) {
    std::scoped_lock const guard(all().mutex);
    if (all().events.erase(event) == 0) return resource_handles;
    delete event;
    return all().lost;
}

}  // extern "C"

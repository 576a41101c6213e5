// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Compiled without instrumentation. Only the thread whose turn it is touches what is here, and turns are handed
// over through futexes; so nothing needs a lock.

#include "schedule.hpp"

#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include <dlfcn.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

constexpr std::uint64_t second       = 1'000'000'000;
constexpr std::uint64_t step_ns      = 100;          ///< of virtual time
constexpr std::uint64_t too_many     = 100'000'000;  ///< steps: nothing gets anywhere
constexpr unsigned      most_threads = 256;

enum class state : unsigned char { none, runnable, blocked, finished };

struct thread {
    unsigned      id       = 0;
    std::uint32_t turn     = 0;  ///< a futex
    state         is       = state::none;
    bool          timed    = false;
    bool          expired  = false;
    void const*   on       = nullptr;  ///< what it is blocked on
    char const*   doing    = "";
    std::uint64_t wakes_at = 0;
    std::int64_t  priority = 0;
    pthread_t     handle{};
    void* (*start)(void*) = nullptr;
    void* argument        = nullptr;
};

thread        threads[most_threads];
unsigned      count = 0;
std::uint64_t seed_ = 0, random_ = 0, steps_ = 0, now_ = 0;
std::uint64_t gap_ = 1, countdown_ = 1;
bool          by_priority_ = false;
std::int64_t  lowest_      = 0;
pthread_key_t on_exit_key;

unsigned runnable_ = 0;  ///< where one thread alone can go on, there is nothing to choose

thread_local thread* self [[gnu::tls_model("initial-exec")]] = nullptr;

// ---- the system's own calls

template <class F>
F next(char const* name) {
    void* p = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");  // of condition variables there is an older one
    if (!p) p = dlsym(RTLD_NEXT, name);
    return reinterpret_cast<F>(p);
}
#define TENURE_REAL(name) static auto* const real = next<decltype(&::name)>(#name)

long raw(long n, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
#if defined(__x86_64__)
    long          r             = n;
    register long r4 asm("r10") = d;
    register long r5 asm("r8")  = e;
    register long r6 asm("r9")  = f;
    asm volatile("syscall" : "+a"(r) : "D"(a), "S"(b), "d"(c), "r"(r4), "r"(r5), "r"(r6) : "rcx", "r11", "memory");
    return r;
#else
#error "the schedule explorer knows x86-64 only"
#endif
}

[[noreturn]] void give_up(char const* why) {
    std::fprintf(stderr, "explore: %s (seed %llu, step %llu)\n", why, static_cast<unsigned long long>(seed_),
                 static_cast<unsigned long long>(steps_));
    static char const* const names[] = {"none", "runnable", "blocked", "finished"};
    for (unsigned i = 0; i < count; ++i)
        std::fprintf(stderr, "  thread %u: %s %s %p\n", i, names[static_cast<int>(threads[i].is)], threads[i].doing,
                     threads[i].on);
    std::abort();
}

// ---- whose turn it is

std::uint64_t draw() {  // splitmix64
    std::uint64_t z = random_ += 0x9e37'79b9'7f4a'7c15u;
    z               = (z ^ z >> 30) * 0xbf58'476d'1ce4'e5b9u;
    z               = (z ^ z >> 27) * 0x94d0'49bb'1331'11ebu;
    return z ^ z >> 31;
}

/// How long the next thread goes on. Of all orders of magnitude alike: a race often takes one thread that stops for
/// long within a few steps, and another that meanwhile gets far.
void draw_gap() { countdown_ = 1 + draw() % (std::uint64_t{2} << draw() % gap_); }

void await_turn(thread* me) {
    while (!__atomic_exchange_n(&me->turn, 0u, __ATOMIC_ACQUIRE))
        raw(SYS_futex, reinterpret_cast<long>(&me->turn), FUTEX_WAIT_PRIVATE, 0);
}
void give_turn(thread* to) {
    __atomic_store_n(&to->turn, 1u, __ATOMIC_RELEASE);
    raw(SYS_futex, reinterpret_cast<long>(&to->turn), FUTEX_WAKE_PRIVATE, 1);
}

void become(thread& t, state s) {
    runnable_ -= t.is == state::runnable;
    t.is = s;
    runnable_ += t.is == state::runnable;
}

void wake(thread& t, bool expired = false) {
    become(t, state::runnable);
    t.on      = nullptr;
    t.timed   = false;
    t.expired = expired;
}

/// Which of those that can go on does; null: none. `but`: preferably another one.
thread* choose(thread const* but) {
    for (unsigned i = 0; i < count; ++i)
        if (threads[i].is == state::blocked && threads[i].timed && threads[i].wakes_at <= now_)
            wake(threads[i], true);
    thread*  best = nullptr;
    unsigned n    = 0;
    for (unsigned i = 0; i < count; ++i) {
        thread& t = threads[i];
        if (t.is != state::runnable || &t == but) continue;
        ++n;
        if (!best || (by_priority_ ? t.priority > best->priority : draw() % n == 0)) best = &t;
    }
    if (!best && but && but->is == state::runnable) return const_cast<thread*>(but);
    return best;
}

/// When all wait: for the first that waits for a time, or for what is held by a thread that is not scheduled.
thread* choose_late() {
    for (int tries = 0;; ++tries) {
        if (thread* const t = choose(nullptr)) return t;
        thread* first = nullptr;
        for (unsigned i = 0; i < count; ++i)
            if (threads[i].is == state::blocked && threads[i].timed &&
                (!first || threads[i].wakes_at < first->wakes_at))
                first = &threads[i];
        if (first) {
            now_ = first->wakes_at;
            continue;
        }
        if (tries == 200) give_up("deadlock");
        timespec const little{0, 1'000'000};
        raw(SYS_nanosleep, reinterpret_cast<long>(&little), 0);
        for (unsigned i = 0; i < count; ++i)
            if (threads[i].is == state::blocked) wake(threads[i]);  // they look again
    }
}

void go_on_with(thread* me, thread* to) {
    if (to == me) return;
    give_turn(to);
    await_turn(me);
}

void hand_over(thread* me, bool preferably) {
    if (by_priority_) me->priority = --lowest_;
    draw_gap();
    if (thread* const to = choose(preferably ? me : nullptr)) go_on_with(me, to);
}

/// Another thread may go on here.
inline void point() {
    thread* const me = self;
    if (!me || runnable_ == 1) return;
    ++steps_;
    now_ += step_ns;
    if (--countdown_ == 0) [[unlikely]] {
        if (steps_ > too_many) give_up("no end in sight");
        hand_over(me, false);
    }
}

/// The thread has nothing to do but to wait for another.
void yield(thread* me, char const* doing) {
    me->doing = doing;
    ++steps_;
    now_ += step_ns;
    if (steps_ > too_many) give_up("no end in sight");
    hand_over(me, true);
}

void block(thread* me, void const* on, char const* doing) {
    become(*me, state::blocked);
    me->on    = on;
    me->doing = doing;
    draw_gap();
    go_on_with(me, choose_late());
}

/// False: the time is up.
bool block_until(thread* me, void const* on, std::uint64_t when, char const* doing) {
    me->timed    = true;
    me->expired  = false;
    me->wakes_at = when;
    block(me, on, doing);
    return !me->expired;
}

void wake_all(void const* on) {
    for (unsigned i = 0; i < count; ++i)
        if (threads[i].is == state::blocked && threads[i].on == on) wake(threads[i]);
}

/// One of higher priority may have become able to go on.
void after_wake(thread* me) {
    if (!by_priority_) return point();
    if (thread* const to = choose(nullptr); to && to->priority > me->priority) go_on_with(me, to);
}

void finished(void* p) {
    auto* const me = static_cast<thread*>(p);
    become(*me, state::finished);
    wake_all(me);
    self     = nullptr;
    bool any = false;
    for (unsigned i = 0; i < count; ++i)
        any = any || threads[i].is == state::blocked || threads[i].is == state::runnable;
    if (any) give_turn(choose_late());
}

void* run_thread(void* p) {
    auto* const me = static_cast<thread*>(p);
    self           = me;
    await_turn(me);
    pthread_setspecific(on_exit_key, me);  // whose destructor runs after those of thread_local objects
    return me->start(me->argument);
}

thread* add_thread() {
    if (count == most_threads) {
        for (thread& t : threads)
            if (t.is == state::finished) return &t;
        give_up("too many threads");
    }
    thread& t = threads[count];
    t.id      = count++;
    return &t;
}

void in_child() {  // of fork(): only the caller is there
    thread* const me = self;
    for (unsigned i = 0; i < count; ++i)
        if (&threads[i] != me) become(threads[i], state::finished);
}

std::uint64_t clock_of(clockid_t id) {
    timespec t{};
    raw(SYS_clock_gettime, id, reinterpret_cast<long>(&t));
    return static_cast<std::uint64_t>(t.tv_sec) * second + static_cast<std::uint64_t>(t.tv_nsec);
}
std::uint64_t in_ns(timespec const& t) {
    return static_cast<std::uint64_t>(t.tv_sec) * second + static_cast<std::uint64_t>(t.tv_nsec);
}
void sleep_for(thread* me, std::uint64_t ns) {
    if (ns == 0) return yield(me, "sleeps");
    block_until(me, nullptr, now_ + ns, "sleeps");
}

}  // namespace

namespace explore {

void begin(std::uint64_t seed) {
    if (self) return;
    seed_ = random_ = seed;
    draw();
    now_         = second * 1'000'000;
    by_priority_ = draw() % 2;
    gap_         = 4 + draw() % 9;
    draw_gap();
    static bool const made = [] {
        return pthread_key_create(&on_exit_key, finished) == 0 && pthread_atfork(nullptr, nullptr, in_child) == 0;
    }();
    if (!made) give_up("no key");
    thread* const me = add_thread();
    become(*me, state::runnable);
    me->handle   = pthread_self();
    me->priority = static_cast<std::int64_t>(draw() >> 2);
    self         = me;
}

void end() noexcept { self = nullptr; }

std::uint64_t steps() noexcept { return steps_; }

}  // namespace explore

// ---- in the place of the C library's

extern "C" {

int pthread_create(pthread_t* handle, pthread_attr_t const* attributes, void* (*start)(void*),
                   void* argument) noexcept {
    TENURE_REAL(pthread_create);
    thread* const me = self;
    if (!me) return real(handle, attributes, start, argument);
    thread* const t = add_thread();
    t->turn         = 0;
    t->start        = start;
    t->argument     = argument;
    t->priority     = static_cast<std::int64_t>(draw() >> 2);
    t->on           = nullptr;
    int const r     = real(&t->handle, attributes, run_thread, t);
    if (r != 0) {
        become(*t, state::finished);
        return r;
    }
    *handle = t->handle;
    become(*t, state::runnable);
    after_wake(me);
    return 0;
}

int pthread_join(pthread_t handle, void** result) {
    TENURE_REAL(pthread_join);
    if (thread* const me = self)
        for (unsigned i = 0; i < count; ++i) {
            thread& t = threads[i];
            if (t.is == state::none || !pthread_equal(t.handle, handle)) continue;
            while (t.is != state::finished) block(me, &t, "joins");
            t.handle = {};
            break;
        }
    return real(handle, result);
}

int pthread_mutex_lock(pthread_mutex_t* m) noexcept {
    TENURE_REAL(pthread_mutex_lock);
    thread* const me = self;
    if (!me) return real(m);
    point();
    for (;;) {
        int const r = pthread_mutex_trylock(m);
        if (r != EBUSY) return r;
        block(me, m, "locks");
    }
}

int pthread_mutex_unlock(pthread_mutex_t* m) noexcept {
    TENURE_REAL(pthread_mutex_unlock);
    int const     r  = real(m);
    thread* const me = self;
    if (me) {
        wake_all(m);
        after_wake(me);
    }
    return r;
}

int pthread_cond_wait(pthread_cond_t* c, pthread_mutex_t* m) {
    TENURE_REAL(pthread_cond_wait);
    thread* const me = self;
    if (!me) return real(c, m);
    next<decltype(&::pthread_mutex_unlock)>("pthread_mutex_unlock")(m);
    wake_all(m);
    block(me, c, "waits");
    return pthread_mutex_lock(m);
}

int pthread_cond_clockwait(pthread_cond_t* c, pthread_mutex_t* m, clockid_t clock, timespec const* until) {
    TENURE_REAL(pthread_cond_clockwait);
    thread* const me = self;
    if (!me) return real(c, m, clock, until);
    next<decltype(&::pthread_mutex_unlock)>("pthread_mutex_unlock")(m);
    wake_all(m);
    bool const in_time = block_until(me, c, in_ns(*until), "waits for a time");
    pthread_mutex_lock(m);
    return in_time ? 0 : ETIMEDOUT;
}

int pthread_cond_timedwait(pthread_cond_t* c, pthread_mutex_t* m, timespec const* until) {
    TENURE_REAL(pthread_cond_timedwait);
    return self ? pthread_cond_clockwait(c, m, CLOCK_REALTIME, until) : real(c, m, until);
}

int pthread_cond_signal(pthread_cond_t* c) noexcept {
    TENURE_REAL(pthread_cond_signal);
    thread* const me = self;
    if (me) {
        unsigned n   = 0;
        thread*  who = nullptr;
        for (unsigned i = 0; i < count; ++i)
            if (threads[i].is == state::blocked && threads[i].on == c && draw() % ++n == 0) who = &threads[i];
        if (who) wake(*who);
        after_wake(me);
    }
    return real(c);
}

int pthread_cond_broadcast(pthread_cond_t* c) noexcept {
    TENURE_REAL(pthread_cond_broadcast);
    if (thread* const me = self) {
        wake_all(c);
        after_wake(me);
    }
    return real(c);
}

int sched_yield() noexcept {
    if (thread* const me = self) {
        yield(me, "yields");
        return 0;
    }
    return static_cast<int>(raw(SYS_sched_yield));
}

int poll(pollfd* fds, nfds_t n, int ms) {
    TENURE_REAL(poll);
    thread* const me = self;
    if (!me || n > 0) return real(fds, n, ms);
    sleep_for(me, ms > 0 ? static_cast<std::uint64_t>(ms) * 1'000'000 : 0);
    return 0;
}

int nanosleep(timespec const* t, timespec* left) {
    TENURE_REAL(nanosleep);
    thread* const me = self;
    if (!me) return real(t, left);
    sleep_for(me, in_ns(*t));
    return 0;
}

int clock_nanosleep(clockid_t clock, int flags, timespec const* t, timespec* left) {
    TENURE_REAL(clock_nanosleep);
    thread* const me = self;
    if (!me) return real(clock, flags, t, left);
    std::uint64_t const at = in_ns(*t);
    sleep_for(me, flags & TIMER_ABSTIME ? (at > now_ ? at - now_ : 0) : at);
    return 0;
}

int usleep(useconds_t us) {
    timespec const t{static_cast<time_t>(us / 1'000'000), static_cast<long>(us % 1'000'000) * 1000};
    return nanosleep(&t, nullptr);
}

/// All clocks of the system are one.
int clock_gettime(clockid_t clock, timespec* t) noexcept {
    std::uint64_t const ns =
        self && clock != CLOCK_PROCESS_CPUTIME_ID && clock != CLOCK_THREAD_CPUTIME_ID ? now_ : clock_of(clock);
    t->tv_sec  = static_cast<time_t>(ns / second);
    t->tv_nsec = static_cast<long>(ns % second);
    return 0;
}

/// Futexes, which std::atomic waits on; the rest goes to the kernel as it is.
long syscall(long n, ...) noexcept {
    va_list rest;
    va_start(rest, n);
    long a[6];
    for (long& x : a) x = va_arg(rest, long);
    va_end(rest);
    thread* const me = self;
    if (me && n == SYS_futex) {
        auto const what = static_cast<int>(a[1]) & FUTEX_CMD_MASK;
        if (what == FUTEX_WAIT || what == FUTEX_WAIT_BITSET) {
            if (__atomic_load_n(reinterpret_cast<unsigned*>(a[0]), __ATOMIC_SEQ_CST) == static_cast<unsigned>(a[2]))
                yield(me, "waits on a futex");
            errno = EAGAIN;
            return -1;
        }
    }
    long const r = raw(n, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (r < 0 && r > -4096) {
        errno = static_cast<int>(-r);
        return -1;
    }
    return r;
}

// ---- in the place of ThreadSanitizer's runtime

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_ignore_thread_begin() {}
void __tsan_ignore_thread_end() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

#define TENURE_ATOMIC(bits, type)                                                                      \
    type __tsan_atomic##bits##_load(type const volatile* p, int) {                                     \
        point();                                                                                       \
        type const v = __atomic_load_n(p, __ATOMIC_SEQ_CST);                                           \
        point();                                                                                       \
        return v;                                                                                      \
    }                                                                                                  \
    void __tsan_atomic##bits##_store(type volatile* p, type v, int) {                                  \
        point();                                                                                       \
        __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                      \
        point();                                                                                       \
    }                                                                                                  \
    TENURE_RMW(bits, type, exchange, __atomic_exchange_n)                                              \
    TENURE_RMW(bits, type, fetch_add, __atomic_fetch_add)                                              \
    TENURE_RMW(bits, type, fetch_sub, __atomic_fetch_sub)                                              \
    TENURE_RMW(bits, type, fetch_and, __atomic_fetch_and)                                              \
    TENURE_RMW(bits, type, fetch_or, __atomic_fetch_or)                                                \
    TENURE_RMW(bits, type, fetch_xor, __atomic_fetch_xor)                                              \
    TENURE_RMW(bits, type, fetch_nand, __atomic_fetch_nand)                                            \
    int __tsan_atomic##bits##_compare_exchange_strong(type volatile* p, type* c, type v, int, int) {   \
        point();                                                                                       \
        int const r = __atomic_compare_exchange_n(p, c, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
        point();                                                                                       \
        return r;                                                                                      \
    }                                                                                                  \
    int __tsan_atomic##bits##_compare_exchange_weak(type volatile* p, type* c, type v, int m, int f) { \
        return __tsan_atomic##bits##_compare_exchange_strong(p, c, v, m, f);                           \
    }                                                                                                  \
    type __tsan_atomic##bits##_compare_exchange_val(type volatile* p, type c, type v, int m, int f) {  \
        __tsan_atomic##bits##_compare_exchange_strong(p, &c, v, m, f);                                 \
        return c;                                                                                      \
    }
#define TENURE_RMW(bits, type, name, builtin)                          \
    type __tsan_atomic##bits##_##name(type volatile* p, type v, int) { \
        point();                                                       \
        type const r = builtin(p, v, __ATOMIC_SEQ_CST);                \
        point();                                                       \
        return r;                                                      \
    }
TENURE_ATOMIC(8, unsigned char)
TENURE_ATOMIC(16, unsigned short)
TENURE_ATOMIC(32, unsigned int)
TENURE_ATOMIC(64, unsigned long)
void __tsan_atomic_thread_fence(int) { point(); }
void __tsan_atomic_signal_fence(int) { point(); }

}  // extern "C"

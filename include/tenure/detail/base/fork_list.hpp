// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include <pthread.h>

#include <tenure/detail/base/config.hpp>

namespace tenure::detail {

/// What fork() does with locks. A child has one thread, and whatever other threads of its parent held at that
/// moment would stay locked there for ever. So whoever forks takes all locks that a child may need, and gives them
/// back in both processes (pthread_atfork(3)). The order is that of docs/forking.md: the core's, which
/// are those of registries, depots, units and batches, and then those that are in this list, the newest first, for
/// an adaptor is newer than the store below it. Nothing is registered while one of these locks is held.

/// One object's locks.
struct fork_node {
    void (*lock)(void*) noexcept;
    void (*unlock)(void*) noexcept;
    void* self;
    void (*mend)(void*) noexcept;  ///< or null
    void*      owner;
    fork_node* newer = nullptr;
    fork_node* older = nullptr;
};

struct fork_list {
    std::mutex                 mutex;  ///< of the list; the first that is taken
    fork_node*                 newest = nullptr;
    std::atomic<std::uint32_t> forks{
        0};  ///< that this process has been the child of, since the first was installed
    std::atomic<bool> installed{false};

    /// The core's part, once there is a registry.
    std::atomic<void (*)() noexcept> lock_core{nullptr}, unlock_core{nullptr}, mend_core{nullptr};
};
TENURE_SHARED inline constinit fork_list forks{};

inline void before_fork() noexcept {
    forks.mutex.lock();
    if (auto* const f = forks.lock_core.load(std::memory_order_acquire)) f();
    for (fork_node* n = forks.newest; n; n = n->older) n->lock(n->self);
}

inline void after_fork() noexcept {
    fork_node* n = forks.newest;
    while (n && n->older) n = n->older;
    for (; n; n = n->newer) n->unlock(n->self);
    if (auto* const f = forks.unlock_core.load(std::memory_order_acquire)) f();
    forks.mutex.unlock();
}

inline void after_fork_in_child() noexcept {
    forks.forks.fetch_add(1, std::memory_order_relaxed);
    after_fork();
    for (fork_node const* n = forks.newest; n; n = n->older)
        if (n->mend) n->mend(n->owner);
    if (auto* const f = forks.mend_core.load(std::memory_order_acquire)) f();
}

/// Once a process. Under `forks.mutex`.
TENURE_COLD inline void install_fork_handlers() noexcept {
    if (forks.installed.load(std::memory_order_relaxed)) return;
    ::pthread_atfork(&before_fork, &after_fork, &after_fork_in_child);
    forks.installed.store(true, std::memory_order_relaxed);
}

/// Puts an object's locks into the list for as long as it lives. In a child, `mend(owner)` is called once all locks
/// are free and before it does anything else: what belongs to another thread then never goes on.
class fork_entry {
public:
    fork_entry(void* self, void (*lock)(void*) noexcept, void (*unlock)(void*) noexcept, void* owner = nullptr,
               void (*mend)(void*) noexcept = nullptr) noexcept
        : node_{lock, unlock, self, mend, owner} {
        std::scoped_lock const guard(forks.mutex);
        install_fork_handlers();
        node_.older = forks.newest;
        if (node_.older) node_.older->newer = &node_;
        forks.newest = &node_;
    }
    ~fork_entry() {
        std::scoped_lock const guard(forks.mutex);
        (node_.newer ? node_.newer->older : forks.newest) = node_.older;
        if (node_.older) node_.older->newer = node_.newer;
    }
    fork_entry(fork_entry const&)            = delete;
    fork_entry& operator=(fork_entry const&) = delete;

private:
    fork_node node_;
};

/// A mutex of something that a child may go on using. It must not be made while another lock of the library is
/// held. Where one is held while another is taken, it has to be the newer.
class fork_mutex : public std::mutex {
public:
    /// `owner` and `mend` as for a fork_entry.
    explicit fork_mutex(void* owner = nullptr, void (*mend)(void*) noexcept = nullptr) noexcept
        : entry_(
              static_cast<std::mutex*>(this), [](void* m) noexcept { static_cast<std::mutex*>(m)->lock(); },
              [](void* m) noexcept { static_cast<std::mutex*>(m)->unlock(); }, owner, mend) {}

private:
    fork_entry entry_;
};

/// Names a thread for as long as it lives: so in the child of a fork(), and while that mends, the one that forked.
TENURE_SHARED inline void const* this_threads_name() noexcept {
    static constinit thread_local char one = 0;
    return &one;
}

/// Whose file, connection or device it is: that of the process that made it. Costs a load and a compare to ask.
class fork_mark {
public:
    fork_mark() noexcept {
        if (!forks.installed.load(std::memory_order_relaxed)) {
            std::scoped_lock const guard(forks.mutex);
            install_fork_handlers();
        }
        made_in_ = forks.forks.load(std::memory_order_relaxed);
    }

    /// This process is a child of the one that made it.
    bool in_child() const noexcept { return made_in_ != forks.forks.load(std::memory_order_relaxed); }

private:
    std::uint32_t made_in_;
};

}  // namespace tenure::detail

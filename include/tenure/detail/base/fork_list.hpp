// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include <pthread.h>

#include <tenure/detail/base/config.hpp>

namespace tenure::detail {

/// How the library's locks pass through fork(). A child has one thread, and a lock that another thread of the
/// parent held at that moment would stay locked there for ever. So the forking thread takes all locks that a child
/// may need, and unlocks them in both processes (pthread_atfork(3)). The order is that of docs/forking.md: first
/// the core's locks (those of registries, depots, units and batches), then those in this list, the newest first,
/// because an adaptor is newer than the store below it. No entry is added to the list while one of these locks is
/// held.

/// The locks of one object.
struct fork_node {
    void (*lock)(void*) noexcept   = nullptr;  ///< null, as unlock: it has none
    void (*unlock)(void*) noexcept = nullptr;
    void* self                     = nullptr;
    void (*mend)(void*) noexcept   = nullptr;  ///< called in the child; or null
    void*      owner               = nullptr;
    fork_node* newer               = nullptr;
    fork_node* older               = nullptr;
};

struct fork_list {
    std::mutex                 mutex;  ///< guards the list; fork() takes it before all other locks
    fork_node*                 newest = nullptr;
    std::atomic<std::uint32_t> forks{
        0};  ///< how often this process was the child of a fork(), since the first handler was installed
    std::atomic<bool> installed{false};
    std::atomic<bool> under_way{false};  ///< nobody gets a gated_spin_lock

    /// The handlers of the core, set once there is a registry.
    std::atomic<void (*)() noexcept> lock_core{nullptr}, unlock_core{nullptr}, mend_core{nullptr};
};
TENURE_SHARED inline constinit fork_list forks{};

inline void before_fork() noexcept {
    forks.mutex.lock();
    if (auto* const f = forks.lock_core.load(std::memory_order_acquire)) f();
    for (fork_node const* n = forks.newest; n; n = n->older)
        if (n->lock) n->lock(n->self);
}

inline void after_fork() noexcept {
    fork_node* n = forks.newest;
    while (n && n->older) n = n->older;
    for (; n; n = n->newer)
        if (n->unlock) n->unlock(n->self);
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

/// Installs the handlers, once a process. The caller holds `forks.mutex`.
TENURE_COLD inline void install_fork_handlers() noexcept {
    if (forks.installed.load(std::memory_order_relaxed)) return;
    ::pthread_atfork(&before_fork, &after_fork, &after_fork_in_child);
    forks.installed.store(true, std::memory_order_relaxed);
}

/// Adds a node to the list. The caller holds `forks.mutex`.
inline void link_newest(fork_node& n) noexcept {
    install_fork_handlers();
    n.older = forks.newest;
    if (n.older) n.older->newer = &n;
    forks.newest = &n;
}

/// Adds a node for the life of the process, unless it was added before. The node is initialised at compile time:
/// another thread's initialisation of a static object would be half done in a child, for ever. No lock is held.
TENURE_COLD inline void add_for_ever(fork_node& n) noexcept {
    std::scoped_lock const guard(forks.mutex);
    if (!n.older && !n.newer && forks.newest != &n) link_newest(n);
}

/// Keeps an object's locks in the list for as long as it lives. In a child, `mend(owner)` is called when all locks
/// are free again and before the child does anything else. It ends for good what belonged to the parent's other
/// threads.
class fork_entry {
public:
    fork_entry(void* self, void (*lock)(void*) noexcept, void (*unlock)(void*) noexcept, void* owner = nullptr,
               void (*mend)(void*) noexcept = nullptr) noexcept
        : node_{lock, unlock, self, mend, owner} {
        std::scoped_lock const guard(forks.mutex);
        link_newest(node_);
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

/// A mutex of an object that a child may go on using. It must not be constructed while another lock of the library
/// is held. Of two that are held at once, the newer must be taken first.
class fork_mutex : public std::mutex {
public:
    /// Takes `owner` and `mend` as fork_entry's constructor does.
    explicit fork_mutex(void* owner = nullptr, void (*mend)(void*) noexcept = nullptr) noexcept
        : entry_(
              static_cast<std::mutex*>(this), [](void* m) noexcept { static_cast<std::mutex*>(m)->lock(); },
              [](void* m) noexcept { static_cast<std::mutex*>(m)->unlock(); }, owner, mend) {}

private:
    fork_entry entry_;
};

/// Returns a name for the calling thread, valid while the thread lives. In the child of a fork(), also while it
/// mends, it is the name of the thread that forked.
TENURE_SHARED inline void const* this_threads_name() noexcept {
    static constinit thread_local char one = 0;
    return &one;
}

/// Tells whether this is the process that made a file, connection or device. Asking costs a load and a compare.
class fork_mark {
public:
    fork_mark() noexcept {
        if (!forks.installed.load(std::memory_order_relaxed)) {
            std::scoped_lock const guard(forks.mutex);
            install_fork_handlers();
        }
        made_in_ = forks.forks.load(std::memory_order_relaxed);
    }

    /// Returns whether this process is a child of the one that made the mark.
    bool in_child() const noexcept { return made_in_ != forks.forks.load(std::memory_order_relaxed); }

private:
    std::uint32_t made_in_;
};

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/types.h>

#include <tenure/batch.hpp>
#include <tenure/budget/admission.hpp>
#include <tenure/budget/capacity_source.hpp>
#include <tenure/budget/job_watch.hpp>
#include <tenure/budget/options.hpp>
#include <tenure/budget/process_memory.hpp>
#include <tenure/budget/use_meter.hpp>
#include <tenure/detail/base/fork_list.hpp>
#include <tenure/detail/base/minder.hpp>
#include <tenure/detail/base/os.hpp>
#include <tenure/detail/base/printed.hpp>
#include <tenure/detail/batch/loans.hpp>
#include <tenure/detail/batch/thread_context.hpp>
#include <tenure/detail/batch/waiting.hpp>
#include <tenure/device/scheduler/estimate.hpp>
#include <tenure/error.hpp>
#include <tenure/raise.hpp>
#include <tenure/reservation.hpp>
#include <tenure/snapshot.hpp>

namespace tenure {

namespace detail {

class budget_core;

/// Room of one job in a budget.
class lent_room final : public lender, public admission_rules::holder {
public:
    explicit lent_room(std::shared_ptr<budget_core> of) noexcept : core_(std::move(of)) {}
    inline ~lent_room() override;

    std::size_t        bytes() const noexcept override { return bytes_.load(std::memory_order_relaxed); }
    inline errc        extend(std::size_t in_use, std::size_t wanted, function_ref<bool()> over) noexcept override;
    inline std::string holders() const override;
    void const*        budget() const noexcept override { return core_.get(); }
    inline void        ended(std::size_t peak) noexcept override;
    inline void        begun() noexcept override;

    inline std::error_code add_process(int pid) override;
    inline std::error_code add_cgroup(std::string const& directory) override;

private:
    friend budget_core;

    std::shared_ptr<budget_core> const core_;
    std::atomic<std::size_t>           bytes_{0};       ///< as `has`
    bool                               ended_ = false;  ///< with its batch

    // Guarded by the budget's mutex.
    job_kinds::value_type*   kind_  = nullptr;
    lent_room*               older_ = nullptr;  ///< of those that have something
    lent_room*               newer_ = nullptr;
    int                      priority_{};
    std::chrono::nanoseconds timeout_{};
    bool                     watched_ = false;  ///< it has a batch, or has named something outside
    std::uint64_t            since_   = 0;      ///< CLOCK_MONOTONIC when it began, where others are told
    job_outside              outside_{};
};

/// What a memory_budget is, for as long as there are reservations.
class budget_core {
public:
    using time = admission_rules::time;

    /// Somebody who waits. `decided` is called under the lock when there is an answer, or it should look.
    struct waiting : admission_rules::waiter {
        std::vector<std::shared_ptr<lender>> keeps{};  ///< what it has, which must stay meanwhile

        bool is_new = true;
        bool asks   = false;  ///< now and then, whether it should still wait

        virtual void decided() noexcept = 0;

    protected:
        ~waiting() = default;
    };

    /// `shares`: it will take_share().
    explicit budget_core(budget_options o, bool shares = false)
        : options_(std::move(o)),
          meter_(options_, shares),
          bytes_(options_.capacity),
          cores_(options_.cores),
          rules_({bytes_, cores_}, options_.aging),
          mutex_(this, [](void* self) noexcept { static_cast<budget_core*>(self)->be_alone(); }) {
        look();
    }

    /// Admits a job, or refuses it. Returns no code if it has to wait, and then `w` waits. Errors: limit_exceeded;
    /// timed_out if it would have to wait and there is no `w`. Throws std::bad_alloc.
    std::optional<errc> begin(lent_room& room, reservation_request const& r, waiting* w) {
        look_if_old();
        std::unique_lock<std::mutex> guard(mutex_);
        if (!last_kind_ || last_kind_->first != r.kind) {
            auto kind = kinds_.find(r.kind);
            if (kind == kinds_.end()) kind = kinds_.try_emplace(std::string(r.kind)).first;
            last_kind_ = &*kind;
        }
        if (r.bytes) last_kind_->second.declared = r.bytes;
        room.kind_     = last_kind_;
        room.priority_ = r.priority;
        room.timeout_  = r.timeout;
        budget_amount const wants{need_of(room), r.cores};
        if (!rules_.is_possible(wants)) return errc::limit_exceeded;
        auto const try_it = [&] { return rules_.try_grant(room, wants, &std::chrono::steady_clock::now); };
        if (!try_it()) {
            if (w) return wait(*w, room, wants, guard, try_it);
            tried_    = wants;
            tried_at_ = coarse_now();
            if (source_) source_->wake();
            return errc::timed_out;
        }
        note_grant(room);
        return errc{};
    }

    /// Lends more, or refuses to, as begin().
    std::optional<errc> more(lent_room& room, std::size_t in_use, std::size_t wanted, waiting& w) {
        look_if_old();
        std::unique_lock<std::mutex> guard(mutex_);
        std::size_t const            has    = room.has.bytes;
        std::size_t const            target = wanted > ~in_use ? no_limit : in_use + wanted;
        if (target <= has) return errc{};
        if (!rules_.is_possible({target, 0})) return errc::limit_exceeded;
        // At first more than what is missing, so that a job that grows slowly asks seldom.
        budget_amount const missing{target - has, 0}, step{std::max({missing.bytes, has / 8, least_step}), 0};
        auto const          now    = &std::chrono::steady_clock::now;
        auto const          try_it = [&] {
            return rules_.try_extend(room, step, now) || rules_.try_extend(room, missing, now);
        };
        if (!try_it()) return wait(w, room, missing, guard, try_it);
        note_grant(room);
        return errc{};
    }

    /// A round of waiting: returns the answer, if there is one by now, or calls sleep(time) under the lock: to come
    /// again at that time, or when w.decided() is called. Errors: timed_out, would_deadlock; cancelled if `over()`,
    /// which is asked under the lock.
    template <class Over, class F>
    std::optional<errc> next(waiting& w, time until, Over over, std::unique_lock<std::mutex>& lock, F sleep) {
        if (std::exchange(w.is_new, false)) {
            lock.unlock();
            minder_.ring();
            if (source_) source_->wake();
            lock.lock();
        }
        bool const minded = !minder_.has_stopped();
        if (!minded) {
            lock.unlock();
            refresh();
            lock.lock();
            answer();
        }
        bool const gone = over();
        if (!w.answer && (gone || std::chrono::steady_clock::now() >= until)) {
            rules_.leave(w);
            w.answer = gone ? errc::cancelled : errc::timed_out;
            answer();
        }
        if (!w.answer)
            sleep(minded && !w.asks ? until : std::min(until, std::chrono::steady_clock::now() + poll()));
        return w.answer;
    }

    /// Ends the budget's thread. Who waits is minded by its own from then on.
    void retire() noexcept {
        minder_.stop();
        std::scoped_lock const guard(mutex_);
        rules_.for_waiting([](admission_rules::waiter& w) { static_cast<waiting&>(w).decided(); });
    }

    std::unique_lock<std::mutex> lock() const { return std::unique_lock<std::mutex>(mutex_); }

    /// Waits for an answer, on this thread: `w` has a condition variable `changed`. Errors as next().
    template <class Sleeper>
    errc sleep(Sleeper& w, time until, function_ref<bool()> over) noexcept {
        waiting_here const  timed(wait_for::memory);
        auto                guard = lock();
        std::optional<errc> code;
        while (!code) code = next(w, until, over, guard, [&](time t) { w.changed.wait_until(guard, t); });
        return *code;
    }

    /// Leaves without an answer, unless there is one.
    void give_up(waiting& w) noexcept {
        std::scoped_lock const guard(mutex_);
        if (w.answer || !w.serial) return;
        rules_.leave(w);
        answer();
    }

    /// Has one that waits look again.
    void wake(waiting& w) noexcept {
        std::scoped_lock const guard(mutex_);
        w.decided();
    }

    /// A room has a batch from now on, whose child processes this thread starts.
    void begin_batch(lent_room& room) noexcept {
        if (!meter_.watches()) return;
        auto const                   thread = thread_number();
        std::uint64_t const          now    = coarse_now();
        std::unique_lock<std::mutex> guard(mutex_);
        room.outside_.thread = thread;
        room.outside_.since  = now;
        watch(room, guard);
    }

    /// Has something outside of this process count for a job. Throws std::bad_alloc.
    void add_use(lent_room& room, named_use what) {
        {
            std::unique_lock<std::mutex> guard(mutex_);
            if (!room.serial) return;  // the job is over
            room.outside_.named.push_back(std::move(what));
            ++named_;
            watch(room, guard);
        }
        look();
    }

    /// Gives back what a room has, and notes what its batch used, unless that is 0: there was none.
    void end(lent_room& room, std::size_t peak) noexcept {
        {
            std::unique_lock<std::mutex> guard(mutex_);
            if (!room.serial) return;
            if (room.watched_) peak = leave_outside(room, peak);
            if (peak) room.kind_->second.seen.observe(peak);
            (room.newer_ ? room.newer_->older_ : newest_) = room.older_;
            if (room.older_) room.older_->newer_ = room.newer_;
            rules_.release(room);
            room.bytes_.store(0, std::memory_order_relaxed);
            ++changes_;  // what is in use may still be what it had
            // No other job starts with it here, beyond what stays, before one elsewhere had a turn.
            if (source_ && source_->others_lack()) {
                cut_to_ = share_.stays;
                shrink_to(cut_to_);
                source_->wake();
            }
            if (rules_.waiting() == 0) return;
            answer();
            if (rules_.waiting() == 0) return;
            if (!rules_.is_short_of_memory()) return ring(guard);
        }
        look();
        std::unique_lock<std::mutex> guard(mutex_);
        answer();
        if (rules_.waiting() > 0) ring(guard);
    }

    budget_figures figures() {
        look_if_old();
        std::scoped_lock const guard(mutex_);
        budget_figures         f;
        f.capacity       = rules_.capacity().bytes;
        f.cores          = rules_.capacity().cores;
        f.reserved       = rules_.reserved().bytes;
        f.cores_reserved = rules_.reserved().cores;
        f.in_use         = rules_.in_use();
        f.baseline       = rules_.baseline();
        f.waiting        = rules_.waiting();
        for (lent_room const* r = newest_; r; r = r->older_)
            f.holders.push_back({r->kind_->first, r->has.bytes, r->has.cores, r->outside_.now});
        return f;
    }

    using demand = capacity_demand;
    demand demands() {
        look_if_old();
        std::scoped_lock const guard(mutex_);
        demand                 d{.taken   = rules_.taken(),
                                 .held    = rules_.held(),
                                 .wanted  = rules_.wanted(),
                                 .changes = changes_,
                                 .begun   = begun_,
                                 .started = rules_.first_has_room()};
        budget_amount          first = rules_.soonest(std::chrono::steady_clock::now());
        if (auto const* const last = rules_.stuck()) d.stuck = static_cast<lent_room const*>(last)->since_;

        cut_to_ = everything;
        if (std::chrono::nanoseconds(coarse_now() - tried_at_) < std::chrono::milliseconds(100)) {
            d.wanted = {std::max(d.wanted.bytes, tried_.bytes), std::max(d.wanted.cores, tried_.cores)};
            if (rules_.waiting() == 0) first = tried_;
        }
        d.next = {saturated_sum(d.taken.bytes, first.bytes), saturated_sum(d.taken.cores, first.cores)};
        return d;
    }

    /// Has the capacity come from elsewhere. Nobody uses the budget yet.
    void take_share(std::unique_ptr<capacity_source> from) noexcept { source_ = std::move(from); }

    /// Has a share be less, but not less than what cannot be given back. Returns what it is then: more than `to` if
    /// that is taken by now, and never more than it was.
    budget_amount shrink_share(budget_amount to) noexcept {
        std::scoped_lock const guard(mutex_);
        return shrink_to(to);
    }

    using share = capacity_share;
    void set_share(share const& s) noexcept {
        std::scoped_lock const guard(mutex_);
        share_     = s;
        share_.has = smaller(s.has, larger(cut_to_, rules_.taken()));
        apply_capacity();
        answer();
    }

    /// Asks for memory that nobody makes use of, for a source that wants it back.
    void give_back(std::size_t bytes) noexcept {
        if (relieving_.exchange(true, std::memory_order_acquire)) return;
        if (options_.relieve) options_.relieve(bytes);
        look();
        relieving_.store(false, std::memory_order_release);
    }

    void set_capacity(budget_amount c) noexcept {
        std::scoped_lock const guard(mutex_);
        bytes_ = c.bytes;
        cores_ = c.cores;
        apply_capacity();
        answer();
    }

    void observe(std::string_view kind, std::size_t bytes) {
        std::scoped_lock const guard(mutex_);
        kinds_.try_emplace(std::string(kind)).first->second.seen.observe(bytes);
    }

    void note_failure(job_failure const& why) {
        std::scoped_lock const guard(mutex_);
        if (failures_.size() == 64) failures_.pop_front();
        failures_.push_back(why);
    }
    std::vector<job_failure> failures() const {
        std::scoped_lock const guard(mutex_);
        return {failures_.begin(), failures_.end()};
    }

    std::size_t estimate(std::string_view kind, std::size_t declared) const {
        std::scoped_lock const guard(mutex_);
        auto const             found = kinds_.find(kind);
        if (found == kinds_.end()) return need_estimate().bytes(declared, options_.estimate);
        return found->second.seen.bytes(declared ? declared : found->second.declared, options_.estimate);
    }

    /// Returns who has what, for a message.
    std::string holders() {
        budget_figures f = figures();
        std::ranges::sort(f.holders, std::ranges::greater{}, &budget_figures::holder::bytes);
        std::string out = "; of the budget's " + human_bytes(f.capacity) + ", " + human_bytes(f.reserved) +
                          " are reserved and " + human_bytes(f.in_use) + " in use";
        char const* before = "; most has ";
        for (std::size_t i = 0; i < std::min<std::size_t>(f.holders.size(), 3); ++i, before = ", ")
            out += before + ("'" + f.holders[i].kind + "' " + human_bytes(f.holders[i].bytes));
        return out;
    }

    /// Returns what a request asked for, for a message.
    std::string asked(lent_room const& room, reservation_request const& r) const {
        std::scoped_lock const guard(mutex_);
        std::size_t const      need = need_of(room), has = rules_.most().bytes;
        std::string            out = printed("reserve %zu bytes", need);
        if (r.cores) out += printed(" and %zu cores", r.cores);
        out += printed(" for a job '%.*s'", static_cast<int>(r.kind.size()), r.kind.data());
        if (need > has) out += printed(", %zu more than there are", need - has);
        else if (r.cores > rules_.most().cores) out += printed(" of %zu", rules_.most().cores);
        return out;
    }

    static time deadline(std::chrono::nanoseconds timeout) noexcept {
        time const now = std::chrono::steady_clock::now();
        return timeout < time::max() - now ? now + timeout : time::max();
    }

private:
    static constexpr std::size_t   least_step = 256 * 1024;
    static constexpr budget_amount everything{no_limit, any_number_of_cores};

    std::chrono::nanoseconds poll() const noexcept {
        return std::clamp<std::chrono::nanoseconds>(options_.sample_age, std::chrono::milliseconds(1),
                                                    std::chrono::milliseconds(100));
    }

    std::size_t need_of(lent_room const& room) const noexcept {
        return room.kind_->second.seen.bytes(room.kind_->second.declared, options_.estimate);
    }

    /// Begins to wait, unless try_it() succeeds now. Who has room meanwhile: the calling thread's batch and those
    /// above it, and who asks for more. The lock is given up meanwhile: no batch's lock may be taken under it, or a
    /// fork() would wait for ever.
    template <class F>
    std::optional<errc> wait(waiting& w, lent_room& room, budget_amount wants, std::unique_lock<std::mutex>& guard,
                             F try_it) {
        guard.unlock();
        lane* const l = this_thread.current;
        for (batch_record* b = l ? l->batch : nullptr; b; b = b->parent.load(std::memory_order_acquire)) {
            if (b->limited != b) continue;
            auto from = lender_of(*b);
            if (from && from->budget() == this) w.keeps.push_back(std::move(from));
        }
        w.has.reserve(w.keeps.size() + 1);
        guard.lock();
        if (try_it()) {
            note_grant(room);
            return errc{};
        }
        if (room.serial) w.has.push_back(&room);
        for (auto const& from : w.keeps) {
            auto* const here = static_cast<lent_room*>(from.get());
            if (here != &room && here->serial) w.has.push_back(here);
        }
        w.wants    = wants;
        w.priority = room.priority_;
        w.into     = &room;
        rules_.wait(w, std::chrono::steady_clock::now());
        ++changes_;
        if (!w.has.empty()) answer();  // it may pass one who has waited longer only as one who waits
        return w.answer;
    }

    /// Answers all that can be answered. The lock is held.
    void answer() noexcept {
        rules_.answer(std::chrono::steady_clock::now(), std::min(settled_, share_.settled) >= changes_,
                      [this](admission_rules::waiter& w) {
                          if (*w.answer == errc{}) note_grant(static_cast<lent_room&>(*w.into));
                          static_cast<waiting&>(w).decided();
                      });
    }

    void note_grant(lent_room& room) noexcept {
        bool const fresh = &room != newest_ && !room.newer_;
        room.bytes_.store(room.has.bytes, std::memory_order_relaxed);
        if (!fresh) return;
        room.older_ = newest_;
        if (newest_) newest_->newer_ = &room;
        newest_ = &room;
        ++begun_;
        if (source_) room.since_ = coarse_now();
    }

    /// Looks at what the process uses. Returns false if another thread just does. No lock is held meanwhile: a
    /// fork() takes the core's before this one's.
    bool look() noexcept {
        return meter_.look([this] { return named_uses(); },
                           [this](memory_use now, outside_use* outside) {
                               std::scoped_lock const guard(mutex_);
                               if (outside)
                                   outside->divide([this](auto f) {
                                       for (lent_room* r = newest_; r; r = r->older_) f(r->outside_);
                                   });
                               limit_ = now.limit;
                               rules_.note_use(now.in_use);
                               apply_capacity();
                           });
    }
    void look_if_old() noexcept {
        if (meter_.is_old()) [[unlikely]]
            look();
    }

    /// Returns what jobs have named. Throws std::bad_alloc.
    std::vector<named_use> named_uses() const {
        std::vector<named_use> all;
        std::scoped_lock const guard(mutex_);
        if (named_ == 0) return all;
        for (lent_room const* r = newest_; r; r = r->older_)
            all.insert(all.end(), r->outside_.named.begin(), r->outside_.named.end());
        return all;
    }

    /// The lock is held.
    budget_amount shrink_to(budget_amount to) noexcept {
        share_.has = smaller(share_.has, larger(rules_.taken(), to));
        apply_capacity();
        return share_.has;
    }

    /// The lock is held.
    void apply_capacity() noexcept {
        budget_amount const own{std::min(bytes_ == no_limit ? machine_ : bytes_, limit_), cores_};
        rules_.set_capacity(smaller(own, share_.has), smaller(own, share_.reach), smaller(own, share_.most));
    }

    /// Watches a room no longer. Returns the peak with what was used outside. The lock is held.
    std::size_t leave_outside(lent_room& room, std::size_t peak) noexcept {
        room.watched_ = false;
        --watched_;
        named_ -= room.outside_.named.size();
        return saturated_sum(peak, room.outside_.peak);
    }

    /// Has the budget's thread come by as long as there is such a room. The lock is given up.
    void watch(lent_room& room, std::unique_lock<std::mutex>& guard) noexcept {
        if (!std::exchange(room.watched_, true)) ++watched_;
        if (meter_.watches() && !std::exchange(watching_, true)) ring(guard);
    }

    /// Has the budget's thread do a round for those that wait. The lock is given up.
    void ring(std::unique_lock<std::mutex>& guard) noexcept {
        guard.unlock();
        minder_.ring();
    }

    /// Looks again for those that wait, unless another thread does. Has memory that nobody uses given back to the
    /// system first: once since each began to wait or gave something back, and then while the process uses more
    /// than is reserved.
    void refresh() noexcept {
        if (relieving_.exchange(true, std::memory_order_acquire)) return;
        std::unique_lock<std::mutex> guard(mutex_);
        std::uint64_t const          seen    = changes_;
        bool const                   is_new  = settled_ < seen;
        bool const                   more    = is_new || (rules_.is_short_of_memory() && meter_.is_old());
        std::size_t const            missing = rules_.missing(std::chrono::steady_clock::now());
        guard.unlock();
        if (more && options_.relieve) options_.relieve(missing);
        bool const looked = (more || meter_.is_old()) && look();
        guard.lock();
        if (more && looked) settled_ = std::max(settled_, seen);
        guard.unlock();
        relieving_.store(false, std::memory_order_release);
    }

    /// A round of the budget's thread, which minds those that wait, and watches the processes of jobs.
    std::optional<time> mind() noexcept {
        if (has_waiting()) refresh();
        else look_if_old();
        std::scoped_lock const guard(mutex_);
        answer();
        watching_ = meter_.watches() && watched_ > 0;
        if (rules_.waiting() > 0) return std::chrono::steady_clock::now() + poll();
        if (watching_) return std::chrono::steady_clock::now() + options_.watch_every;
        return {};
    }
    bool has_waiting() const noexcept {
        std::scoped_lock const guard(mutex_);
        return rules_.waiting() > 0;
    }

    /// In a forked child, where the other threads are not.
    void be_alone() noexcept {
        watching_ = false;
        rules_.forget_waiting();
        meter_.be_alone();
        relieving_.store(false, std::memory_order_relaxed);
    }

    budget_options    options_;
    std::size_t const machine_ = physical_memory();
    use_meter         meter_;
    std::atomic<bool> relieving_{false};  ///< a thread is

    // Guarded by mutex_.
    std::size_t bytes_, cores_;  ///< as the user said
    std::size_t limit_ = no_limit;
    share share_{everything, everything, everything, everything, ~std::uint64_t{0}};  ///< of the source, if any
    budget_amount           cut_to_ = everything;  ///< by a job's end, since the source last asked for demands()
    budget_amount           tried_{};              ///< last, without waiting for it
    std::uint64_t           tried_at_ = 0;
    admission_rules         rules_;
    job_kinds               kinds_{};
    job_kinds::value_type*  last_kind_ = nullptr;  ///< most often the next one, too
    std::deque<job_failure> failures_{};
    lent_room*              newest_   = nullptr;
    std::size_t             watched_  = 0;      ///< rooms with something outside, or a batch that may start it
    std::size_t             named_    = 0;      ///< what they have named
    bool                    watching_ = false;  ///< the budget's thread will come by
    std::uint64_t           begun_    = 0;      ///< jobs
    std::uint64_t           changes_  = 0;      ///< waits and releases
    std::uint64_t           settled_  = 0;  ///< of them, those since which all memory was given back that could be

    mutable fork_mutex mutex_;

    minder minder_{"tenure-budget", [this] { return mind(); }};

    std::unique_ptr<capacity_source> source_{};
};

inline lent_room::~lent_room() {
    if (!ended_) core_->end(*this, 0);
}

inline void lent_room::ended(std::size_t peak) noexcept {
    core_->end(*this, peak);
    ended_ = true;
}

inline void lent_room::begun() noexcept { core_->begin_batch(*this); }

inline std::error_code lent_room::add_process(int pid) {
    auto found = find_process(pid);
    if (!found) return std::make_error_code(std::errc::no_such_process);
    core_->add_use(*this, *std::move(found));
    return {};
}

inline std::error_code lent_room::add_cgroup(std::string const& directory) {
    if (!use_of_cgroup(directory)) return std::make_error_code(std::errc::no_such_file_or_directory);
    core_->add_use(*this, {.cgroup = directory});
    return {};
}

inline std::string lent_room::holders() const { return core_->holders(); }

/// A thread that waits.
struct sleeper final : budget_core::waiting {
    std::condition_variable changed;

    void decided() noexcept override { changed.notify_one(); }
};

inline errc lent_room::extend(std::size_t in_use, std::size_t wanted, function_ref<bool()> over) noexcept {
    sleeper w;
    w.asks                      = true;
    std::optional<errc> at_once = errc::memory_full;
    memory_lasts([&] { at_once = core_->more(*this, in_use, wanted, w); });
    return at_once ? *at_once : core_->sleep(w, budget_core::deadline(timeout_), over);
}

}  // namespace detail
}  // namespace tenure

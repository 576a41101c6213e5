// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <tenure/budget/admission.hpp>
#include <tenure/budget/budget_core.hpp>
#include <tenure/budget/options.hpp>
#include <tenure/budget/share_directory.hpp>
#include <tenure/budget/share_file.hpp>
#include <tenure/budget/share_status.hpp>
#include <tenure/budget/share_step.hpp>
#include <tenure/detail/base/file.hpp>
#include <tenure/detail/base/fork_list.hpp>
#include <tenure/detail/base/os.hpp>
#include <tenure/detail/base/signals_blocked.hpp>
#include <tenure/error.hpp>
#include <tenure/raise.hpp>

namespace tenure::detail {

/// What all tell, as rules take it.
struct share_claims {
    std::vector<share_claim> all{};
    budget_amount            capacity{};

    /// A machine has what its members say. If they differ, the least counts; but who is another user's and does not
    /// own the directory cannot make it less.
    share_claims(share_directory::view const& v, budget_amount at_most, std::uint64_t owner) : capacity(at_most) {
        for (share_directory::member const& m : v.members) {
            share_status const& s = m.status;
            if (m.user == 0 || m.user == owner || m.user == ::geteuid()) {
                capacity.bytes = std::min(capacity.bytes, s.capacity.bytes);
                capacity.cores = std::min(capacity.cores, s.capacity.cores);
            }
            all.push_back({.user    = m.user,
                           .has     = s.has,
                           .taken   = smaller(s.taken, s.has),
                           .next    = s.next,
                           .desired = s.desired,
                           .floor   = static_cast<std::size_t>(s.floor),
                           .weight  = s.weight,
                           .since   = s.since,
                           .started = s.started != 0});
        }
    }
};

/// Keeps a budget's share of a machine what it should be: a thread that tells the others what the budget has and
/// wants, and looks at what they tell when that changes, and every `period` as long as somebody lacks something.
class share_keeper final : public capacity_source {
public:
    /// Throws what the system says, insecure, std::bad_alloc.
    share_keeper(budget_core& of, arbiter_options const& machine, share_options const& mine)
        : core_(of), period_(machine.period), grace_(machine.grace), capacity_{machine.bytes, machine.cores} {
        directory_ = std::make_unique<share_directory>(machine.directory);
        check_amount(mine.floor, "bytes of a floor", 0);
        share_status first;
        first.capacity = capacity_;
        first.floor    = mine.floor;
        first.weight   = mine.weight;
        if (char const* const why = first.fault())
            raise(error(std::make_error_code(std::errc::invalid_argument), std::string("share a machine: ") + why));
        mine.job.copy(first.job.data(), first.job.size() - 1);
        file_ = std::make_unique<share_file>(*directory_, first);
        bell_ = unique_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        directory_->watch();
        core_.set_share({.most = capacity_});
        step();
        signals_blocked const here;
        thread_ = std::thread([this] { run(); });
    }
    ~share_keeper() override {
        stopping_.store(true, std::memory_order_release);
        wake();
        if (thread_.joinable()) thread_.join();
    }

    void wake() noexcept override {
        std::uint64_t const one = 1;
        if (bell_) [[maybe_unused]]
            auto const n = ::write(bell_.get(), &one, sizeof one);
    }

private:
    using clock = std::chrono::steady_clock;

    void run() noexcept {
        ::pthread_setname_np(::pthread_self(), "tenure-share");
        while (!stopping_.load(std::memory_order_acquire)) {
            std::array<::pollfd, 2>        on{{{bell_.get(), POLLIN, 0}, {directory_->events(), POLLIN, 0}}};
            std::chrono::nanoseconds const wait =
                std::exchange(doubtful_, false)
                    ? std::min<std::chrono::nanoseconds>(period_, std::chrono::milliseconds(1))
                : restless_ ? period_
                            : std::max<std::chrono::nanoseconds>(period_, std::chrono::seconds(1));
            ::timespec const t{wait / std::chrono::seconds(1),
                               static_cast<long>((wait % std::chrono::seconds(1)).count())};
            ::ppoll(on.data(), on.size(), &t, nullptr);
            if (on[0].revents == 0 && on[1].revents != 0) rest();
            silence();
            run_or<std::exception>([&] { step(); }, [](auto const&) {});  // if not, the next round does
            last_ = clock::now();
        }
    }

    /// Many that look at each of each other's changes would do nothing else.
    void rest() const noexcept {
        auto const due = last_ + std::max(2, members_ - 4) * std::chrono::microseconds(50);
        if (auto const now = clock::now(); now < due) std::this_thread::sleep_for(due - now);
    }

    void silence() const noexcept {
        std::uint64_t rings;
        if (bell_) [[maybe_unused]]
            auto const n = ::read(bell_.get(), &rings, sizeof rings);
    }

    /// A round. The budget has less before the others are told, and more once they were. No lock is held when it is
    /// called: a fork() takes the core's locks before this one's.
    void step() {
        budget_core::demand const d = core_.demands();
        budget_amount const       wants{saturated_sum(d.taken.bytes, d.wanted.bytes),
                                  saturated_sum(d.taken.cores, d.wanted.cores)};
        plan                      p;
        {
            std::scoped_lock const guard(mutex_);
            if (!file_) return;
            p.status         = file_->status();
            p.status.desired = smaller({up(wants.bytes), wants.cores}, capacity_);
            p.status.taken   = smaller({up(d.taken.bytes), d.taken.cores}, capacity_);
            p.status.held    = smaller({up(d.held.bytes), d.held.cores}, p.status.taken);
            p.status.stuck   = d.stuck;
            p.status.started = d.started ? 1 : 0;
            p.status.next    = {up(d.next.bytes), d.next.cores};  // which may be more than there is

            if (!look(p, false)) {  // somebody cleaned the directory up
                file_ = std::make_unique<share_file>(*directory_, p.status);
                if (!look(p, true)) return;
            }
        }
        if (p.now.keeps != p.status.has) {
            p.status.has = smaller(p.status.has, core_.shrink_share(p.now.keeps));
        }
        {
            std::scoped_lock const guard(mutex_);
            if (!file_) return;
            tell(p.status, std::exchange(begun_, d.begun) != d.begun);
            if (larger(p.status.has, p.now.grows_to) != p.status.has || dead_ != left_) grow(p);
        }
        bool const lacks = p.status.lacks();
        note(d, p, lacks);
        core_.set_share({p.status.has, p.most, p.reach, p.now.stays, settled_});
        if (over_ > 0) core_.give_back(over_);
    }

    struct plan {
        share_status  status{};  ///< what is told next
        budget_amount most{};
        budget_amount reach{};         ///< what it could have if all jobs ended that do not wait
        bool          yields = false;  ///< a younger job elsewhere is to be refused before one of this process
        share_step    now{};
    };

    /// Looks at what all tell, or at what is new of it. Returns false if this process's own file is not there. The
    /// mutex is locked. Throws what share_directory::read() does.
    bool look(plan& p, bool all) {
        share_directory::view v    = all ? directory_->read() : directory_->read_changed();
        std::size_t           mine = 0;
        while (mine < v.members.size() && v.members[mine].file != file_->name()) ++mine;
        if (mine == v.members.size()) return false;
        v.members[mine].status = p.status;
        members_               = static_cast<int>(v.members.size());
        dead_                  = std::move(v.dead);
        doubtful_              = v.doubtful;
        share_claims const c(v, capacity_, directory_->owner());
        p.most = c.capacity;
        look_for_others(p, v, mine);
        p.now = share_step::of(c.all, mine, c.capacity, std::max(slack, p.status.desired.bytes / 8));
        return true;
    }

    /// Looks whether jobs go on, here or elsewhere, and whether others elsewhere are stuck.
    static void look_for_others(plan& p, share_directory::view const& v, std::size_t mine) noexcept {
        budget_amount held{};
        bool          go_on = p.status.held != p.status.taken;  // and so may let others here and there go on
        p.yields            = false;
        for (std::size_t i = 0; i < v.members.size(); ++i) {
            share_status const& s = v.members[i].status;
            if (i == mine) continue;
            budget_amount const taken = smaller(s.taken, s.has), stays = smaller(s.held, taken);
            go_on    = go_on || stays != taken;
            held     = {saturated_sum(held.bytes, stays.bytes), saturated_sum(held.cores, stays.cores)};
            p.yields = p.yields || (s.stuck != 0 && std::pair(s.stuck, i) > std::pair(p.status.stuck, mine));
        }
        p.reach = {};
        if (go_on)
            p.reach = {p.most.bytes - std::min(p.most.bytes, held.bytes),
                       p.most.cores - std::min(p.most.cores, held.cores)};
    }

    /// Takes what nobody has. The mutex is locked. It gives nothing back: what was free when the round began may
    /// have been reserved since.
    void grow(plan& p) {
        directory_->alone([&] {
            directory_->sweep(dead_);
            if (!look(p, true)) return;
            left_             = dead_;
            share_status more = p.status;
            more.has          = larger(more.has, p.now.grows_to);
            if (tell(more, false)) p.status = more;
        });
    }

    /// The mutex is locked. `began`: a job did since the last time. Returns false if the others still see what was
    /// told last.
    bool tell(share_status& s, bool began) noexcept {
        bool const waits = s.lacks() || s.next != s.taken;
        s.since          = !waits ? 0 : s.since && !began ? s.since : time_of(CLOCK_BOOTTIME);
        return s == file_->status() || file_->tell(s);
    }

    /// Notes what the others lack, and since when nothing more can be had for who waits here. Of jobs of several
    /// processes that wait for each other, the youngest is refused first.
    void note(budget_core::demand const& d, plan const& p, bool lacks) noexcept {
        share_step const& now = p.now;
        set_others_lack(now.others_lack);
        std::size_t const needs = up(d.taken.bytes);
        over_                   = now.others_lack && needs > now.fair.bytes ? needs - now.fair.bytes : 0;
        if (!lacks) lacks_since_ = {};
        else if (lacks_since_ == clock::time_point{} || now.grows_to != had_ || d.stuck != stuck_)
            lacks_since_ = clock::now();
        bool const waited = !lacks || clock::now() - lacks_since_ >= (p.yields ? 2 : 1) * grace_;
        bool const known  = !lacks || d.stuck != 0 || fits(reach_, p.reach);  // whether one is stuck, by now
        settled_          = waited && known ? d.changes : 0;
        had_              = now.grows_to;
        stuck_            = d.stuck;
        reach_            = p.reach;
        restless_         = lacks || now.others_lack;
    }

    /// Rounds up, so that not every page that is touched is told.
    std::size_t up(std::size_t bytes) const noexcept {
        std::size_t const step = std::max<std::size_t>(4096, capacity_.bytes / 4096);
        return bytes > ~step ? bytes : (bytes + step - 1) / step * step;
    }

    /// In a forked child, which is not a member, and has no share.
    void lose() noexcept {
        if (file_) file_->abandon();
        file_.reset();
        directory_.reset();
        bell_.reset();
        new (&thread_) std::thread;  // the old one cannot be joined
        core_.set_share({.settled = settled_});
    }

    static constexpr std::size_t slack = std::size_t{16} << 20;

    budget_core&                   core_;
    std::chrono::nanoseconds const period_, grace_;
    budget_amount const            capacity_;

    fork_mutex mutex_{this, [](void* self) noexcept { static_cast<share_keeper*>(self)->lose(); }};
    std::unique_ptr<share_directory> directory_;
    std::unique_ptr<share_file>      file_;
    std::vector<std::string>         dead_;
    std::vector<std::string>         left_;  ///< of those, what could not be removed
    unique_fd                        bell_;  ///< an eventfd(2)

    // The thread's own.
    bool              restless_ = false;
    bool              doubtful_ = false;
    int               members_  = 1;
    std::size_t       over_     = 0;  ///< bytes in use that others should have
    budget_amount     had_{};
    budget_amount     reach_{};
    std::uint64_t     stuck_   = 0;
    std::uint64_t     settled_ = 0;
    std::uint64_t     begun_   = 0;  ///< jobs that had begun in the last round
    clock::time_point last_{}, lacks_since_{};

    std::atomic<bool> stopping_{false};
    std::thread       thread_;
};

}  // namespace tenure::detail

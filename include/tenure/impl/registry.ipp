// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <new>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include <tenure/detail/life/leaks.hpp>
#include <tenure/detail/life/one_copy.hpp>
#include <tenure/detail/life/registries.hpp>
#include <tenure/detail/life/reporting.hpp>
#include <tenure/impl/core.ipp>
#include <tenure/impl/lane.ipp>
#include <tenure/raise.hpp>
#include <tenure/registry.hpp>
#include <tenure/store/heap.hpp>

namespace tenure {

TENURE_DECL registry::registry(registry_options options) : options_(std::move(options)) {
    if (options_.warm > std::min(options_.memory_limit.high, detail::largest_object))
        raise(error(errc::memory_full, "open a registry that is to warm more than its memory_limit"));
    if (options_.warm && !detail::new_background)
        detail::refuse_without("tenure/background.hpp", "open a registry that is to be warm");
    any_store&      store  = options_.store;
    any_store const memory = store && store.capabilities().addressable ? store : std::make_shared<heap_store>();
    if (!store) store = memory;
    detail::paging_options paging{options_.page_file, options_.memory_limit, options_.eviction, options_.access};
    core_ =
        detail::open_registry(memory, store, std::move(paging), options_.background_limit,
                              static_cast<std::uint64_t>(options_.decay.count()), std::source_location::current());
    if (options_.clock && core_->timing) core_->timing->now = options_.clock;
    set_root_makes(options_.root_makes);
    if (options_.warm) core_->background->warm(options_.warm);
}

TENURE_DECL registry::~registry() {
    if (core_->background) core_->background->close();
    tell_leaks();
    detail::close_registry(core_);
}

TENURE_DECL void registry::tell_leaks() const noexcept {
    if (!options_.on_leak) return;
    std::string report;
    bool const  told = !detail::thrown_by([&] {
        report = leak_report();
        if (!report.empty()) options_.on_leak(report);
    });
    if (told) return;
    // This runs in a destructor, or at the exit of the program, so nobody could catch what was thrown.
    if (report.empty()) std::fputs("tenure: no memory left to tell which batches nobody ended\n", stderr);
    else std::fprintf(stderr, "tenure: on_leak threw, and may not have told this:\n%s", report.c_str());
}

/// The global registry. Its static variables are those of an inline function in every mode, so that programs and
/// plugins share them.
struct detail::global_registry {
    TENURE_SHARED static registry& get() {
        static registry& instance = open();
        return instance;
    }

    TENURE_SHARED TENURE_COLD static registry& open() {
        // It is never destroyed: other static objects may use it in their destructors, and threads that outlive
        // main.
        alignas(registry) static std::byte memory[sizeof(registry)];
        static registry* const             instance = ::new (memory) registry;
        static struct exit_guard {
            ~exit_guard() {
                registry_core& core    = *instance->core_;
                bool const     waiting = !this_thread.reclaiming;  // else it would wait for itself
                if (waiting && core.background) core.background->retire();
                instance->tell_leaks();
                if (waiting) end_at_exit(core);
            }
        } const at_exit;
        process.global_root.store(instance->core_->root, std::memory_order_release);
        return *instance;
    }
};

TENURE_DECL registry& registry::global() { return detail::global_registry::get(); }

TENURE_DECL detail::found registry::find(batch_id id, char const* call) const {
    return detail::find_known(*core_, id.value, call);
}

TENURE_DECL batch_id registry::new_batch(batch_options const& options, batch_id parent,
                                         std::source_location where) {
    if (!parent) return {detail::open_batch(*core_, core_->root, &options, false, where).id};
    auto const over = [&](detail::batch_record const* up) {
        return error(detail::over_because(up, parent.value),
                     "open a batch below " + detail::label_of(parent.value));
    };
    detail::batch_record* const up = find(parent, "open a batch below ").record;
    if (!up) raise(over(up));
    detail::look_at_the_clock(*up, parent.value);
    detail::kept_open const held(*up, parent.value);
    if (!held) raise(over(up));
    return {detail::open_batch(*core_, up, &options, false, where).id};
}

TENURE_DECL batch_id registry::current_batch() noexcept {
    detail::thread_context const& me = detail::this_thread;
    return me.current || me.ending ? batch_id{detail::current_id()} : global().root();
}

TENURE_DECL batch_id registry::set_current_batch(batch_id id) {
    batch_id const        previous = current_batch();
    detail::batch_record* b        = detail::find_anywhere(id.value);
    if (!b) {
        find(id, "make current: batch ");
        raise(error(detail::over_because(b, id.value), "make current: batch " + detail::label_of(id.value)));
    }
    detail::lane* to      = nullptr;
    bool          visited = false;
    if (b == global().core_->root) {
        if (detail::this_thread.ending)
            to = detail::lane_of_root(*global().core_);  // elsewhere null stands for the root
    } else if (b->guard.load(std::memory_order_acquire) == &detail::this_thread) {
        if (b->closed() && !b->in_chain.load(std::memory_order_relaxed))
            raise(error(b->why_closed(), "make current: batch " + detail::label_of(id.value)));
        to = &b->primary;
    } else {
        if (!detail::hold_or_root(*b, id.value, detail::unless_crowded))
            raise(error(detail::over_because(b, id.value), "make current: batch " + detail::label_of(id.value)));
        detail::return_at_exit();
        to                                = detail::enter_held(*b);
        visited                           = true;
        detail::this_thread.leave_visited = &detail::leave_visited;
    }
    detail::switch_to(to, visited);
    return previous;
}

TENURE_DECL void registry::end(batch_id id, bool destroy) {
    detail::found const f = find_to_end(id, destroy ? "destroy batch " : "end batch ");
    if (f.record) detail::end_record(*f.record, id.value, destroy);
}

TENURE_DECL batch_report registry::end_with_report(batch_id id) {
    detail::found const f = find_to_end(id, "end batch ");
    return f.record ? detail::end_by_id(*f.record, id.value) : batch_report{};
}

TENURE_DECL detail::found registry::find_to_end(batch_id id, char const* call) const {
    detail::found const f = find(id, call);
    if (f.record == core_->root) raise(error(errc::not_owner, "end the root: it ends with its registry"));
    if (f.record && detail::is_common(*f.record))
        raise(error(errc::not_owner, "end what several batches share: it ends with the last of them"));
    return f;
}

TENURE_DECL entered registry::enter(batch_id id) {
    auto* const b = find(id, "enter batch ").record;
    if (b) detail::look_at_the_clock(*b, id.value);
    if (b && detail::visit_primary(*b, id.value)) return entered(&b->primary);
    if (!b || !detail::hold_or_root(*b, id.value, detail::unless_crowded))
        raise(error(detail::over_because(b, id.value), "enter batch " + detail::label_of(id.value)));
    return entered(detail::enter_held(*b));
}

TENURE_DECL batch_status registry::status(batch_id id) const {
    detail::found const f = find(id, "status of batch ");
    return detail::status_of(f.record ? *f.record : detail::over_record_of(), id.value);
}

TENURE_DECL batch_id registry::parent(batch_id id) const {
    detail::found const f = find(id, "look above batch ");
    if (!f.record) return {};
    std::uint64_t const up    = detail::parent_of(*f.record);
    std::uint64_t const state = f.record->state.load(std::memory_order_acquire);
    bool const          lives = detail::same_batch(state, id.value) && !(state & detail::batch_flags::done);
    return {lives ? up : 0};
}

TENURE_DECL bool registry::is_ancestor(batch_id above, batch_id below) const {
    find(above, "look below batch ");
    batch_id up = parent(below);
    while (up && up != above) up = parent(up);
    return up.value != 0;
}

TENURE_DECL batch_usage registry::usage(batch_id id) const {
    detail::found const f = find(id, "usage of batch ");
    if (!f.record) return {};
    batch_usage const now = detail::usage_of(*f.record);
    return f.record->id.load(std::memory_order_acquire) == id.value ? now : batch_usage{};
}

TENURE_DECL std::string registry::leak_report() const { return detail::leaks_of(*core_); }

TENURE_DECL std::size_t registry::trim() noexcept { return detail::trim(*core_); }

TENURE_DECL void detail::make_room(registry& of, std::size_t bytes) noexcept {
    registry_core const& core  = core_of(of);
    std::size_t const    freed = of.trim();
    if (core.pages && freed < bytes)
        memory_lasts([&] { core.pages->page_out_idle(bytes - freed); });  // else as much as there was memory for
}

TENURE_DECL result<batch_id> registry::try_set_current_batch(batch_id id) {
    auto const full   = [](std::bad_alloc const&) { return result<batch_id>(make_error_code(errc::memory_full)); };
    auto const failed = [](error const& e) { return result<batch_id>(e.code()); };
    auto const set    = [&] { return result<batch_id>(set_current_batch(id)); };
    return detail::run_or<error>([&] { return detail::run_or<std::bad_alloc>(set, full); }, failed);
}

TENURE_DECL void registry::set_root_makes(tenure::root_makes how) noexcept { detail::let_root_make(*core_, how); }

TENURE_DECL batch_id registry::root() const noexcept { return {core_->root->id.load(std::memory_order_relaxed)}; }

TENURE_DECL void registry::drain() const noexcept {
    if (core_->background && !detail::this_thread.reclaiming) core_->background->drain();
}

}  // namespace tenure

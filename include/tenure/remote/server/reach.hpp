// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include <boost/unordered/unordered_flat_map.hpp>

#include <tenure/remote/protocol.hpp>
#include <tenure/remote/server/common.hpp>
#include <tenure/remote/server/holdings.hpp>
#include <tenure/remote/server/outbox.hpp>

namespace tenure::detail {

/// The blocks that one client can reach: its own, those that it found by name, or just the range of its ticket.
/// Checks offsets and lengths before anything is touched. Not thread-safe.
class reach {
public:
    reach(common& c, std::shared_ptr<tenant> const& of, std::uint64_t session, std::optional<ticket> only)
        : common_(c), session_(session), own_(c, of), only_(std::move(only)), account_(of) {
        if (only_) opened_.emplace(only_->what->id, only_->what);
    }

    holdings&       own() noexcept { return own_; }
    holdings const& own() const noexcept { return own_; }
    bool            by_ticket() const noexcept { return only_.has_value(); }

    void clear() noexcept {
        own_.clear();
        opened_.clear();
        settle_opened();
        if (session_) common_.tickets.remove(session_);
    }

    /// A block, and a stay that keeps it while it is in use.
    struct located {
        block       where;
        std::size_t bytes = 0;        ///< as clients know them; no more than the store holds
        held_block* held  = nullptr;  ///< set if others may use the block
        stay        at;               ///< set if the client does not own the block
        bool        own = false;
    };

    result<located> locate(protocol::block_name const& name) noexcept {
        if (auto const mine = own_.find(name))
            return located{mine->where, mine->bytes, own_.held(name.id), stay(), true};
        auto const at = opened_.find(name.id);
        if (at == opened_.end() || at->second->bytes != name.bytes) return make_error_code(errc::no_such_block);
        if (!at->second->enter()) {
            opened_.erase(at);
            settle_opened();
            return make_error_code(errc::no_such_block);
        }
        return located{at->second->where, at->second->bytes, at->second.get(), stay(at->second), false};
    }

    /// Returns a stay at the block that may outlast the call. Errors: memory_full.
    result<stay> stay_at(located& l, protocol::block_name const& name) noexcept {
        if (!l.own) return std::move(l.at);
        auto const h = own_.hold(name.id, {l.where, l.bytes});
        if (!h || !h->enter()) return make_error_code(errc::memory_full);
        return stay(h);
    }

    static std::error_code check(located const& l, protocol::range_request const& r) noexcept {
        if (r.length > l.bytes || r.offset > l.bytes - r.length) return make_error_code(errc::out_of_range);
        return {};
    }
    std::error_code check_write(located const& l, protocol::range_request const& r) const noexcept {
        if (auto const why = check(l, r)) return why;
        if (only_ && (r.offset < only_->offset || r.offset - only_->offset > only_->length ||
                      r.length > only_->length - (r.offset - only_->offset)))
            return make_error_code(errc::out_of_range);
        return {};
    }

    /// Puts the reply into `out`. On error, puts nothing.
    std::error_code read(std::uint64_t request, protocol::range_request const& r, outbox& out) {
        auto at = locate(r.block);
        if (!at) return at.error();
        if (auto const why = check(*at, r)) return why;
        if (r.length > common_.most_payload()) return make_error_code(errc::limit_exceeded);
        std::size_t const   length = r.length, offset = r.offset, before = out.size();
        any_store&          store = common_.store->get();
        std::uint16_t const op    = static_cast<std::uint16_t>(protocol::operation::read);
        if (length <= outbox::copied) {
            out.reply(request, op, 0, {}, length);
            auto const done = store.read(at->where, offset, out.room(length));
            if (!done) out.shrink(before);
            return done.error();
        }
        if (!common_.store->addressable()) {
            auto memory = common_.pool->take(length);
            if (auto const done = store.read(at->where, offset, memory.span()); !done) return done.error();
            out.reply(request, op, 0, {}, length);
            out.outside(std::move(memory));
            return {};
        }
        auto const address = store.try_address(at->where);
        if (!address) return address.error();
        auto s = stay_at(*at, r.block);
        if (!s) return s.error();
        out.reply(request, op, 0, {}, length);
        out.outside({*address + offset, length}, std::move(*s));
        return {};
    }

    std::error_code write(located const& at, protocol::range_request const& r, std::span<std::byte const> payload) {
        if (auto const why = check_write(at, r)) return why;
        return common_.store->get().write(at.where, r.offset, payload).error();
    }

    /// The target of a long payload that arrives.
    struct landing {
        std::span<std::byte> where;  ///< empty: the payload is dropped
        stay                 at;
        pooled_chunk         memory;      ///< the payload, if the store has no addresses
        block                target;      ///< the block that `memory` is written to
        std::size_t          offset = 0;  ///< in `target`
    };

    std::error_code land(located& at, protocol::range_request const& r, landing& l) {
        if (auto const why = check_write(at, r)) return why;
        auto s = stay_at(at, r.block);
        if (!s) return s.error();
        if (common_.store->addressable()) {
            auto const address = common_.store->get().try_address(at.where);
            if (!address) return address.error();
            l.where = {*address + r.offset, r.length};
        } else {
            l.memory = common_.pool->take(r.length);
            l.where  = l.memory.span();
            l.target = at.where;
            l.offset = r.offset;
        }
        l.at = std::move(*s);
        return {};
    }

    /// Writes a payload that has wholly arrived to its block, unless it arrived there.
    std::error_code landed(landing& l) {
        if (!l.memory) return {};
        return common_.store->get().write(l.target, l.offset, l.where).error();
    }

    std::error_code copy(located const& from, located const& to, protocol::copy_request const& r) {
        for (auto const& [at, offset] : {std::pair(&from, r.from_offset), std::pair(&to, r.to_offset)})
            if (r.length > at->bytes || offset > at->bytes - r.length) return make_error_code(errc::out_of_range);
        return common_.store->copy(from.where, r.from_offset, to.where, r.to_offset, r.length).error();
    }

    std::error_code share(protocol::block_name const& b, std::string_view name) {
        auto const mine = own_.find(b);
        if (!mine) return mine.error();
        auto const h = own_.hold(b.id, *mine);
        if (!h) return make_error_code(errc::memory_full);
        return common_.names.add(name, h).error();
    }

    result<protocol::block_name> open(std::string_view name) {
        auto const h = common_.names.find(name);
        if (!h) return make_error_code(errc::no_such_name);
        protocol::block_name const b{h->id, h->bytes};
        if (own_.find(b)) return b;
        if (!opened_.contains(h->id)) {
            if (auto why = make_room_for_opened()) return why;
        }
        opened_.insert_or_assign(h->id, h);
        return b;
    }

    std::error_code unshare(std::string_view name) {
        auto const h = common_.names.find(name);
        if (!h) return make_error_code(errc::no_such_name);
        if (own_.held(h->id) != h.get()) return make_error_code(errc::access_denied);
        common_.names.remove(name);
        return {};
    }

    result<protocol::key> grant(protocol::range_request const& r) {
        auto at = locate(r.block);
        if (!at) return at.error();
        if (auto const why = check(*at, r)) return why;
        auto const h = at->own ? own_.hold(r.block.id, {at->where, at->bytes}) : opened_.at(r.block.id);
        if (!h) return make_error_code(errc::memory_full);
        return common_.tickets.add({h, r.offset, r.length, session_, ticket::clock::now() + common_.ticket_life,
                                    account_.of(), tenant_claim()});
    }

private:
    static constexpr std::uint64_t opened_cost  = 192;  ///< bytes to know a block of another client
    static constexpr std::size_t   least_opened = 256;

    std::error_code make_room_for_opened() noexcept {
        if (opened_.size() >= most_opened_) forget_what_is_gone();
        if (!account_.take(resource::memory, opened_cost)) return {};
        forget_what_is_gone();
        return account_.take(resource::memory, opened_cost);
    }
    /// Forgets freed blocks. Done when there are twice as many blocks as were left the last time, so that the cost
    /// of each does not grow with their number; and when a limit is reached.
    void forget_what_is_gone() noexcept {
        erase_if(opened_, [](auto const& e) { return !e.second->alive(); });
        most_opened_ = std::max(least_opened, 2 * opened_.size());
        settle_opened();
    }
    void settle_opened() noexcept { account_.settle(resource::memory, opened_.size() * opened_cost); }

    common&                                                               common_;
    std::uint64_t const                                                   session_;
    holdings                                                              own_;
    std::optional<ticket>                                                 only_;
    account                                                               account_;  ///< of what was opened
    boost::unordered_flat_map<std::uint64_t, std::shared_ptr<held_block>> opened_;
    std::size_t                                                           most_opened_ = least_opened;
};

}  // namespace tenure::detail

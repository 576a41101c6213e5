// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <span>
#include <string>

#include <tenure/remote/client/epochs.hpp>
#include <tenure/remote/client/stash.hpp>
#include <tenure/remote/client/window.hpp>

namespace tenure::detail::remote {

/// What the server holds for this client, computed from its answers: no word is kept per block. If a request does
/// not say how much it frees (the end of a batch, a list with dead blocks in it), the server reports what is left.
/// It takes requests in the order of their numbers, so the report counts all requests before that one and none
/// after.
///
/// Changed by the thread that drives the connection; read by all threads.
class accounts {
public:
    /// Adds what the answer to this request changed: more, or less if negative.
    void changed(std::uint64_t request, std::int64_t bytes, std::int64_t blocks) noexcept {
        if (request < since_) return;  // the server's report counts it already
        add(bytes_, bytes);
        add(blocks_, blocks);
    }

    /// Sets what is held to the report in the answer to this request, to which the caller has added what answers
    /// to later ones changed.
    void told(std::uint64_t request, std::uint64_t bytes, std::uint64_t blocks) noexcept {
        if (request < since_) return;
        since_ = request;
        bytes_.store(bytes, std::memory_order_relaxed);
        blocks_.store(blocks, std::memory_order_relaxed);
    }

    /// Begins a new session, with nothing held. Its first request has this number.
    void begin(std::uint64_t request) noexcept {
        since_ = request;
        bytes_.store(0, std::memory_order_relaxed);
        blocks_.store(0, std::memory_order_relaxed);
    }

    std::int64_t bytes() const noexcept { return at_least_none(bytes_); }
    std::int64_t blocks() const noexcept { return at_least_none(blocks_); }

private:
    // Unsigned, because a server may say any number.
    using number = std::atomic<std::uint64_t>;

    static void add(number& to, std::int64_t n) noexcept {
        to.store(to.load(std::memory_order_relaxed) + static_cast<std::uint64_t>(n), std::memory_order_relaxed);
    }
    static std::int64_t at_least_none(number const& n) noexcept {
        return std::max<std::int64_t>(static_cast<std::int64_t>(n.load(std::memory_order_relaxed)), 0);
    }

    number        bytes_{0}, blocks_{0};
    std::uint64_t since_ = 0;
};

/// Which of the server's limits was met last, in the server's words. Thread-safe.
class reason {
public:
    void say(std::span<std::byte const> text) noexcept {
        std::scoped_lock const guard(lock_);
        size_ = std::min(text.size(), text_.size());
        for (std::size_t i = 0; i < size_; ++i) {
            char const c = static_cast<char>(text[i]);
            text_[i]     = c >= ' ' && c <= '~' ? c : '?';
        }
    }

    /// Returns the text, in which ? stands for what is not printable. Throws std::bad_alloc.
    std::string text() const {
        std::scoped_lock const guard(lock_);
        return {text_.data(), size_};
    }

private:
    mutable std::mutex                      lock_;
    std::array<char, protocol::most_reason> text_{};
    std::size_t                             size_ = 0;
};

/// Returns whether an error may have a body of that size. Only limit_exceeded has a body: a text that says which
/// limit.
inline bool may_refuse(protocol::frame_header const& h) noexcept {
    return h.body == 0 || (h.status == protocol::status_of(make_error_code(errc::limit_exceeded)) &&
                           h.body <= protocol::most_reason);
}

/// Returns whether a header may be that of the answer to this request. The server may be anybody.
inline bool is_answer(protocol::frame_header const& h, request const& r) noexcept {
    using enum protocol::operation;
    if (h.operation != (r.header.operation | protocol::is_reply) || h.settled != 0 || r.early) return false;
    if (h.status != 0) return may_refuse(h) && h.payload == 0;
    if (h.payload != r.expected) return false;
    switch (r.operation()) {
    case allocate: return h.body == sizeof(protocol::block_run);
    case open: return h.body == sizeof(protocol::block_name);
    case grant: return h.body == sizeof(protocol::key);
    case end_batch:
    case usage: return h.body == sizeof(protocol::usage_reply);
    case status: return true;
    default: return h.body == 0;
    }
}

/// Returns the kind of block that an allocation asks for.
inline block_kind kind_of(request const& r) noexcept {
    auto const a = r.body_as<protocol::allocate_request>();
    return {a.batch, static_cast<std::size_t>(a.bytes), static_cast<std::size_t>(a.alignment)};
}

/// Returns the memory for a text that is the body of an answer. Null if it is thrown away: no call waits, or
/// memory is full.
inline std::byte* room_for_text(request& r, std::size_t n) noexcept try {
    if (!r.of) return nullptr;
    r.of->text.resize(n);
    return reinterpret_cast<std::byte*>(r.of->text.data());
} catch (std::bad_alloc const&) {
    r.outcome = make_error_code(errc::memory_full);
    return nullptr;
}

/// Reads the bodies of answers, for the call and for what the client knows.
struct reader_of_answers {
    epochs&         ids;
    accounts&       held;
    stash&          spare;
    request_window& window;

    /// Reads the body of the answer to `r`. Returns false if it makes no sense.
    bool take(request& r, std::span<std::byte const> body) const noexcept {
        using enum protocol::operation;
        switch (r.operation()) {
        case allocate: return take_run(r, protocol::whole<protocol::block_run>(body));
        case open: {
            auto const b = protocol::whole<protocol::block_name>(body);
            if (!b || !ids.came(b->id, 1)) return false;
            if (r.of) r.of->made = protocol::block_of(*b);
            return true;
        }
        case grant: {
            auto const key = protocol::whole<protocol::key>(body);
            if (key && r.of) r.of->ticket = *key;
            return key.has_value();
        }
        case end_batch:
        case usage: {
            auto const u = protocol::whole<protocol::usage_reply>(body);
            if (u) take_usage(r.number(), *u);
            return u.has_value();
        }
        default: return true;
        }
    }

private:
    /// Takes a report of what is held. It counts the requests before this one. What later ones did is in their
    /// answers: those that are here are added, others will be.
    void take_usage(std::uint64_t request, protocol::usage_reply const& u) const noexcept {
        std::uint64_t bytes = u.bytes, blocks = u.blocks;
        window.for_each_answered_after(request, [&](tenure::detail::remote::request const& later) {
            if (later.outcome) return;
            bytes += static_cast<std::uint64_t>(later.bytes);
            blocks += static_cast<std::uint64_t>(later.blocks);
        });
        held.told(request, bytes, blocks);
    }

    /// Gives the first block to the call, if that still waits, and the others to the stash.
    bool take_run(request& r, result<protocol::block_run> const& run) const noexcept {
        auto const asked = r.body_as<protocol::allocate_request>();
        if (!run || run->bytes != asked.bytes || run->count != asked.count || !ids.came(run->first, run->count))
            return false;
        std::uint64_t first = run->first, n = run->count;
        if (r.of) {
            r.of->made = {first++, r.of->length};
            --n;
            spare.came_for(r.of->made, static_cast<std::size_t>(run->bytes), asked.batch);
        }
        r.bytes  = static_cast<std::int64_t>(run->bytes * run->count);
        r.blocks = static_cast<std::int64_t>(run->count);
        if (r.no_surplus) spare.failed(kind_of(r));
        else if (n != 0) spare.put(kind_of(r), first, n);
        return true;
    }
};

}  // namespace tenure::detail::remote

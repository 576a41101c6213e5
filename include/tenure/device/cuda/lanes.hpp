// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include <tenure/device/cuda/driver.hpp>

namespace tenure::detail {

/// A stream and two halves of page-locked memory, for one transfer at a time: while the device works at one half,
/// this thread copies the other. (For memory that the system may move, the driver would do the same with a buffer
/// that all threads share.) Every call leaves the stream empty, even if it fails, so nothing writes to the
/// caller's memory or to the halves any more.
///
/// The device's context must be current when a lane is made, used and destroyed.
class cuda_lane {
public:
    cuda_lane(cuda_driver const& d, std::size_t half) noexcept : driver_(d), half_(half) {}
    ~cuda_lane() {
        for (auto& h : halves_) {
            if (h.done) driver_.cuEventDestroy_v2(h.done);
            if (h.memory) driver_.cuMemFreeHost(h.memory);
        }
        if (stream_) driver_.cuStreamDestroy_v2(stream_);
    }
    cuda_lane(cuda_lane const&)            = delete;
    cuda_lane& operator=(cuda_lane const&) = delete;

    /// Makes the stream, the halves and their events. Call it first, until it succeeds.
    int open() noexcept {
        constexpr unsigned non_blocking = 1, disable_timing = 2, portable = 1;
        if (!stream_)
            if (int const code = driver_.cuStreamCreate(&stream_, non_blocking)) return code;
        for (auto& h : halves_) {
            if (!h.memory)
                if (int const code = driver_.cuMemHostAlloc(&h.memory, half_, portable)) return code;
            if (!h.done)
                if (int const code = driver_.cuEventCreate(&h.done, disable_timing)) return code;
        }
        return cuda_success;
    }

    int write(cuda_address to, std::span<std::byte const> in) noexcept {
        if (is_locked(in)) return done(driver_.cuMemcpyHtoDAsync_v2(to, in.data(), in.size(), stream_));
        std::size_t const piece  = piece_of(in.size());
        std::size_t const pieces = (in.size() + piece - 1) / piece;
        int               code   = cuda_success;
        for (std::size_t i = 0; code == cuda_success && i < pieces; ++i) {
            staging&          h    = halves_[i % 2];
            std::size_t const at   = i * piece;
            auto const        part = in.subspan(at, std::min(piece, in.size() - at));
            if (i >= 2) code = driver_.cuEventSynchronize(h.done);
            if (code == cuda_success) {
                std::memcpy(h.memory, part.data(), part.size());
                code = driver_.cuMemcpyHtoDAsync_v2(to + at, h.memory, part.size(), stream_);
            }
            if (code == cuda_success && i + 2 < pieces) code = driver_.cuEventRecord(h.done, stream_);
        }
        return done(code);
    }

    int read(cuda_address from, std::span<std::byte> out) noexcept {
        if (is_locked(out)) return done(driver_.cuMemcpyDtoHAsync_v2(out.data(), from, out.size(), stream_));
        std::size_t const piece  = piece_of(out.size());
        std::size_t const pieces = (out.size() + piece - 1) / piece;
        auto const        part   = [&](std::size_t i) {
            return out.subspan(i * piece, std::min(piece, out.size() - i * piece));
        };
        int code = cuda_success;
        for (std::size_t i = 0; code == cuda_success && i < pieces; ++i) {  // into the half that is empty
            staging& h = halves_[i % 2];
            code       = driver_.cuMemcpyDtoHAsync_v2(h.memory, from + i * piece, part(i).size(), stream_);
            if (code == cuda_success && i + 1 < pieces) code = driver_.cuEventRecord(h.done, stream_);
            if (code != cuda_success || i == 0) continue;
            staging& last = halves_[(i - 1) % 2];
            code          = driver_.cuEventSynchronize(last.done);
            if (code == cuda_success) std::memcpy(part(i - 1).data(), last.memory, piece);
        }
        code = done(code);
        if (code == cuda_success)
            std::memcpy(part(pieces - 1).data(), halves_[(pieces - 1) % 2].memory, part(pieces - 1).size());
        return code;
    }

    /// Runs one command, `f(stream)`, and waits for it.
    template <class F>
    int run(F f) noexcept {
        return done(f(stream_));
    }

private:
    struct staging {
        void*      memory = nullptr;
        cuda_event done   = nullptr;
    };

    /// Waits for the stream. Returns `code` if it is an error, else what the wait returned.
    int done(int code) noexcept {
        int const waited = driver_.cuStreamSynchronize(stream_);
        return code != cuda_success ? code : waited;
    }

    /// Returns the size of a transfer's pieces: a quarter of it, so that most of the copying is hidden, but not
    /// too small, and no more than fits into a half.
    std::size_t piece_of(std::size_t bytes) const noexcept {
        constexpr std::size_t least = std::size_t{256} << 10, page = 4096;
        return std::clamp((bytes / 4 + page - 1) / page * page, std::min(least, half_), half_);
    }

    /// Returns whether the driver knows the memory as page-locked, so that no halves are needed. Asks only if it
    /// pays.
    bool is_locked(std::span<std::byte const> bytes) const noexcept {
        constexpr std::size_t worth = std::size_t{64} << 10;
        return bytes.size() >= worth && is_locked(bytes.front()) && is_locked(bytes.back());
    }
    bool is_locked(std::byte const& at) const noexcept {
        constexpr int memory_type = 2;  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
        unsigned      type        = 0;
        int const     code = driver_.cuPointerGetAttribute(&type, memory_type, reinterpret_cast<cuda_address>(&at));
        return code == cuda_success && type == 1;  // CU_MEMORYTYPE_HOST
    }

    cuda_driver const& driver_;
    std::size_t const  half_;
    cuda_stream        stream_ = nullptr;
    staging            halves_[2];
};

/// Lanes, made as they are first needed, up to a number. A thread that finds all in use waits. Thread-safe. The
/// context must be current when they are destroyed.
class cuda_lanes {
public:
    cuda_lanes(cuda_driver const& d, unsigned most, std::size_t half)
        : driver_(d), half_(half), most_(std::max(most, 1u)) {
        free_.reserve(most_);
    }

    /// Returns what f(lane) returns, or the driver's error if the lane could not be opened.
    template <class F>
    int with(F f) noexcept {
        std::unique_ptr<cuda_lane> lane = take();
        if (!lane) return cuda_out_of_memory;
        int code = lane->open();
        if (code == cuda_success) code = f(*lane);
        put(std::move(lane));
        return code;
    }

private:
    std::unique_ptr<cuda_lane> take() noexcept {
        std::unique_lock guard(mutex_);
        freed_.wait(guard, [&] { return !free_.empty() || made_ < most_; });
        if (free_.empty()) {
            std::unique_ptr<cuda_lane> more(new (std::nothrow) cuda_lane(driver_, half_));
            if (more) ++made_;
            return more;
        }
        std::unique_ptr<cuda_lane> l = std::move(free_.back());
        free_.pop_back();
        return l;
    }
    void put(std::unique_ptr<cuda_lane> l) noexcept {
        {
            std::scoped_lock const guard(mutex_);
            free_.push_back(std::move(l));  // there is room for all lanes
        }
        freed_.notify_one();
    }

    cuda_driver const&                      driver_;
    std::size_t const                       half_;
    unsigned const                          most_;
    std::mutex                              mutex_;
    std::condition_variable                 freed_;
    std::vector<std::unique_ptr<cuda_lane>> free_;
    unsigned                                made_ = 0;
};

}  // namespace tenure::detail

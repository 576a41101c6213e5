// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <span>
#include <string>

#include <tenure/remote/protocol.hpp>

namespace tenure::detail::remote {

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

}  // namespace tenure::detail::remote

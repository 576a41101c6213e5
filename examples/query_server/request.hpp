// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace query_server {

/// One line: the name of a package, then what is out of the ordinary.
///
///     libc6              the packages most related to it
///     libc6 wait=200     after 200 ms: what a server waits for others who know more
///     libc6 replace      neighbours drawn with replacement: 27 million paths, more than a request may have
///
/// The answer is lines up to an empty one; the first begins with how it went: ok, refused, expired, cancelled or
/// error.
struct request {
    std::string               package;
    std::chrono::milliseconds wait{0};
    bool                      replace = false;

    std::string to_line() const {
        std::string out = package;
        if (wait.count()) out += " wait=" + std::to_string(wait.count());
        if (replace) out += " replace";
        return out + '\n';
    }

    /// Throws std::invalid_argument.
    static request from_line(std::string_view line) {
        request out;
        for (bool first = true; !line.empty(); first = false) {
            std::size_t const      end  = std::min(line.find(' '), line.size());
            std::string_view const word = line.substr(0, end);
            line.remove_prefix(std::min(end + 1, line.size()));
            if (first) out.package = word;
            else if (word == "replace") out.replace = true;
            else out.wait = milliseconds(word);
        }
        if (out.package.empty()) throw std::invalid_argument{"no package is named"};
        return out;
    }

private:
    static std::chrono::milliseconds milliseconds(std::string_view word) {
        std::uint32_t number = 0;
        if (word.starts_with("wait=")) {
            auto const digits    = word.substr(5);
            auto const [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
            if (ec == std::errc{} && end == digits.data() + digits.size()) return std::chrono::milliseconds{number};
        }
        throw std::invalid_argument{"neither wait=MILLISECONDS nor replace: " + std::string{word}};
    }
};

}  // namespace query_server

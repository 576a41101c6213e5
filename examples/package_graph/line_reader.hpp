// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <unistd.h>
#include <zlib.h>

namespace package_graph {

/// What cannot be read, where, and what to do about it.
struct input_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The lines of a file, gzip or plain, or of what a program prints into a pipe.
class line_reader {
public:
    explicit line_reader(std::string file) : source_{std::move(file)}, stream_{gzopen(source_.c_str(), "rb")} {
        check_open();
    }

    line_reader(std::FILE* pipe, std::string source)
        : source_{std::move(source)}, stream_{gzdopen(::dup(::fileno(pipe)), "rb")} {
        check_open();
    }

    /// The next line without its end, valid until the next call; false after the last one.
    bool next(std::string_view& line) {
        line_.clear();
        for (bool ended = false; !ended;) {
            if (rest_.empty() && !fill()) {
                if (line_.empty()) return false;
                break;
            }
            auto const end = rest_.find('\n');
            ended          = end != rest_.npos;
            line_ += rest_.substr(0, end);
            rest_.remove_prefix(ended ? end + 1 : rest_.size());
        }
        line = line_;
        if (line.ends_with('\r')) line.remove_suffix(1);
        ++number_;
        return true;
    }

    /// Throws input_error about the line that was read last.
    [[noreturn]] void fail(std::string const& what) const {
        throw input_error{source_ + ":" + std::to_string(number_) + ": " + what};
    }

private:
    void check_open() const {
        if (!stream_) throw input_error{"cannot open " + source_ + ": " + std::generic_category().message(errno)};
    }

    bool fill() {
        int const got = gzread(stream_.get(), block_.data(), static_cast<unsigned>(block_.size()));
        // A file that is cut short reads as one that ends, but for this code.
        int               code = Z_OK;
        char const* const what = gzerror(stream_.get(), &code);
        if (got < 0 || code == Z_BUF_ERROR) {
            fail("cannot read on: " +
                 (code == Z_ERRNO ? std::generic_category().message(errno) : std::string{what}));
        }
        rest_ = {block_.data(), static_cast<std::size_t>(got)};
        return got > 0;
    }

    struct closer {
        void operator()(gzFile f) const noexcept { gzclose_r(f); }
    };

    std::string                                            source_;
    std::unique_ptr<std::remove_pointer_t<gzFile>, closer> stream_;
    std::vector<char>                                      block_ = std::vector<char>(1 << 17);
    std::string_view                                       rest_;  ///< of block_, not read yet
    std::string                                            line_;
    std::size_t                                            number_ = 0;
};

}  // namespace package_graph

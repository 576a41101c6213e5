// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <system_error>

#include <sys/wait.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

namespace demo {

/// Runs `f` in a process of its own and returns what it returned, which travels as JSON: so that what one run
/// leaves in the heap, and its peak of memory, are not the next one's. `what` names it in errors; `lower` is the
/// option to blame if there was too little memory.
template <class F>
auto in_child(std::string const& what, std::string const& lower, F f) -> decltype(f()) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::system_error{errno, std::generic_category(), "pipe"};
    std::cout.flush();
    pid_t const child = ::fork();
    if (child < 0) throw std::system_error{errno, std::generic_category(), "fork"};

    if (child == 0) {
        ::close(ends[0]);
        int code = EXIT_FAILURE;
        try {
            auto const text = nlohmann::json(f()).dump();
            auto       to   = ::fdopen(ends[1], "w");
            std::fwrite(text.data(), 1, text.size(), to);
            if (std::fclose(to) == 0) code = EXIT_SUCCESS;
        } catch (std::exception const& e) {
            std::cerr << what << ": " << e.what() << '\n';
        }
        ::_exit(code);  // what is buffered and registered here is the parent's to flush and to run
    }

    ::close(ends[1]);
    std::string text;
    char        block[4096];
    for (ssize_t got; (got = ::read(ends[0], block, sizeof block)) > 0;)
        text.append(block, static_cast<std::size_t>(got));
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) {
        throw std::runtime_error{what + " was killed by signal " + std::to_string(WTERMSIG(status)) +
                                 ": if that is for want of memory, lower " + lower};
    }
    if (WEXITSTATUS(status) != EXIT_SUCCESS) throw std::runtime_error{what + " failed"};
    return nlohmann::json::parse(text).get<decltype(f())>();
}

}  // namespace demo

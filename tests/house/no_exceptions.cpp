// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Compiled with -fno-exceptions -fno-rtti: the try_ calls work, and what would throw ends the program and says why.

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <memory_resource>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <tenure/tenure.hpp>

#if defined(__cpp_exceptions) || defined(__cpp_rtti)
#error "this is to be compiled without both"
#endif

namespace {

void require(bool so, char const* what) {
    if (so) return;
    std::fprintf(stderr, "no_exceptions: not so: %s\n", what);
    std::exit(1);
}

struct other_store : tenure::heap_store {};

/// What `f` writes to standard error before it aborts.
template <class F>
std::string last_words(F f) {
    int ends[2];
    require(::pipe(ends) == 0, "there is a pipe");
    ::pid_t const child = ::fork();
    require(child >= 0, "there is a child");
    if (child == 0) {
        ::dup2(ends[1], STDERR_FILENO);
        f();
        ::_exit(0);
    }
    ::close(ends[1]);
    std::string           said;
    std::array<char, 512> part{};
    for (::ssize_t n = 0; (n = ::read(ends[0], part.data(), part.size())) > 0;)
        said.append(part.data(), static_cast<std::size_t>(n));
    ::close(ends[0]);
    int status = 0;
    require(::waitpid(child, &status, 0) == child, "the child is over");
    require(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "it aborted");
    return said;
}

}  // namespace

int main() {
    tenure::batch_scope         outer;
    tenure::handle<std::string> kept, stale;
    {
        tenure::batch_scope                               inner;
        tenure::result<tenure::handle<std::string>> const a = inner.try_make<std::string>("kept");
        tenure::result<tenure::handle<std::string>> const b = inner.try_make<std::string>("not kept");
        require(a && b, "try_make makes");
        require(inner.try_keep(*a).has_value(), "try_keep keeps");
        kept  = *a;
        stale = *b;
    }
    require(*kept == "kept", "what is kept is there");
    require(!stale.alive() && !stale.get(), "what is not kept is gone");
    require(outer.try_keep(stale).error() == tenure::errc::stale_handle, "try_keep says that it is gone");

    tenure::batch_scope small{{.name = "small", .limits = {.hard = 1 << 16}}};
    require(small.try_make<char[]>(1 << 20).error() == tenure::errc::limit_exceeded,
            "try_make says what is too much");

    // What takes the place of type information.
    tenure::any_store const store = std::make_shared<tenure::heap_store>();
    require(store.get_if<tenure::heap_store>() && !store.get_if<other_store>(), "a store is known by its type");
    require(tenure::detail::type_name(tenure::detail::identity_of<int>()) == "int", "a type has its name");
    auto const ids = outer.make<std::pmr::vector<int>>(std::size_t{3}, outer.resource());
    require(ids->size() == 3, "containers live in the batch");
    require(tenure::detail::is_lane_resource(*outer.resource()), "a batch's resource is known");
    require(!tenure::detail::is_lane_resource(*std::pmr::new_delete_resource()), "and no other");

    std::string const said = last_words([&] { std::puts(stale->c_str()); });
    require(said.starts_with("tenure: ") && said.find("stale handle: the object was freed") != said.npos &&
                said.find('\n') == said.size() - 1,
            said.c_str());
}

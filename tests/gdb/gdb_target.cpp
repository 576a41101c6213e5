// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Run under gdb, which stops in look() and prints what is up there.

#include <array>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include <tenure/tenure.hpp>

namespace {

struct base {
    virtual ~base() = default;
    int first       = 1;
};
struct other_base {
    virtual ~other_base() = default;
    int second            = 2;
};
struct derived : base, other_base {};

struct incomplete;

/// All of these are in memory when gdb stops here.
[[gnu::noinline]] void look(std::initializer_list<void const*>) { asm volatile(""); }

}  // namespace

int main() {
    tenure::handle<int>         null;
    tenure::handle<int>         ended;
    tenure::batch_scope         request{{.name = "request"}};
    tenure::batch_scope         nameless;
    tenure::batch_scope         release_hold{{.name = "let go"}};
    auto const                  detached = release_hold.make<int>(5);
    tenure::batch_id const      id       = release_hold.detach();
    auto const                  number   = request.make<int>(42);
    tenure::handle<std::string> text;
    tenure::handle<int>         kept;
    {
        tenure::batch_scope hop{tenure::below(request), {.name = "hop"}};
        ended = hop.make<int>(1);
        kept  = hop.keep(hop.make<int>(7));
        text  = hop.keep(hop.make<std::string>("kept text"));
    }
    auto const freed = request.make<std::string>("freed");
    request.free(freed);
    auto const                       array   = request.make<int[]>(3);
    auto const                       large   = request.make<std::array<char, 200'000>>();
    auto const                       adopted = request.adopt(std::make_unique<std::pair<int, int>>(3, 4));
    tenure::handle<other_base> const second  = request.make<derived>();
    tenure::handle<incomplete>       unknown;
    tenure::batch_scope              over{tenure::below(request), {.name = "over"}};
    over.end();
    auto const  theirs    = nameless.make<int>(8);
    auto const& reference = number;
    auto const  handles   = std::pair(number, freed);
    look({&null, &ended, &request, &nameless, &release_hold, &detached, &number, &text, &kept, &freed, &array,
          &large, &adopted, &second, &unknown, &over, &theirs, &reference, &handles});
    tenure::registry::global().end_batch(id);
    return *number == 42 && *kept == 7 && theirs.alive() && !ended.alive() ? 0 : 1;
}

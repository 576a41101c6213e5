// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// Run under valgrind: `valgrind_target ended|freed|large` reads through a raw pointer into memory that is gone,
// which valgrind must report; `valgrind_target none` reads nothing but what is alive, of which it must not.

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <tenure/tenure.hpp>

int main(int argc, char** argv) {
    std::string_view const which = argc > 1 ? argv[1] : "";
    tenure::batch_scope    outer;
    int const*             small = nullptr;
    int const*             freed = nullptr;
    char const*            large = nullptr;
    tenure::handle<int>    kept;
    {
        tenure::batch_scope b;
        small = b.make<int>(1).get();
        kept  = b.keep(b.make<int>(2));
        b.make<std::string>("a text that is longer than a string holds within");
        std::pmr::vector<int> const v(1000, 3, b.resource());
        auto const                  h = b.make<char[]>(1'000'000);
        h[999'999]                    = 4;
        large                         = h.get();
        if (v[999] + large[999'999] != 7) return 1;
    }
    auto const h = outer.make<int>(5);
    freed        = h.get();
    outer.free(h);
    int seen = *kept;
    if (which == "ended") seen += *static_cast<int const volatile*>(small);
    if (which == "freed") seen += *static_cast<int const volatile*>(freed);
    if (which == "large") seen += *static_cast<char const volatile*>(large + 500'000);
    std::printf("saw %d\n", seen);
}

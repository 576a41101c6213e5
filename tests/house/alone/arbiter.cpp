// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/arbiter.hpp>

#include <cstdlib>
#include <string>

#include <unistd.h>

int main() {
    std::string where = "/tmp/tenure-alone-XXXXXX";
    if (!::mkdtemp(where.data())) return 1;
    bool ok = false;
    {
        tenure::machine_arbiter const arbiter({.directory = where, .bytes = std::size_t{1} << 30});
        tenure::memory_budget         budget{arbiter, {.job = "alone"}};
        ok =
            budget.reserve({.kind = "job", .bytes = 1000}).bytes() == 1000 && arbiter.figures().members.size() == 1;
    }
    return ::rmdir(where.c_str()) == 0 && ok ? 0 : 1;
}

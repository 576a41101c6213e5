// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/background.hpp>

struct slow {
    ~slow() { ++ended; }

    static inline int ended = 0;
};

int main() {
    tenure::registry r;
    {
        tenure::batch_scope batch(r, {.reclaim = tenure::reclamation::background});
        batch.make<slow>();
    }
    r.drain();
    return slow::ended == 1 ? 0 : 1;
}

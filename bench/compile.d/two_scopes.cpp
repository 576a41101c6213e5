// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// The least that uses a batch: HEADER says what it includes.

#include HEADER

struct point {
    int x, y;
};

int main() {
    tenure::batch_scope   outer;
    tenure::handle<point> kept;
    {
        tenure::batch_scope inner;
        kept = inner.make<point>(1, 2);
        inner.keep(kept);
    }
    return kept->x + kept->y == 3 ? 0 : 1;
}

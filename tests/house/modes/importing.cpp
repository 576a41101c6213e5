// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

import tenure;

struct point {
    int x, y;
};

int main() {
    tenure::batch_scope   above{{.name = "above"}};
    tenure::handle<point> best;
    {
        tenure::batch_scope below;
        best = below.keep(below.make<point>(1, 2));
    }
    auto const numbers = above.make_buffer<int>(3);
    numbers.map()[2]   = 7;
    above.checkpoint();
    best->x = 3;
    above.rollback();
    auto const held = tenure::pin(best);
    return best->y == 2 && held->x == 1 && numbers.map()[2] == 7 ? 0 : 1;
}

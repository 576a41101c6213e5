// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <unistd.h>
#include <zlib.h>

#include <tenure/tenure.hpp>

#include "demo/in_child.hpp"
#include "demo/table.hpp"
#include "package_graph/control_file.hpp"
#include "package_graph/count_paths.hpp"
#include "package_graph/edge_list.hpp"
#include "package_graph/figures.hpp"
#include "package_graph/load.hpp"
#include "package_graph/memory.hpp"
#include "package_graph/nearest_names.hpp"
#include "package_graph/peers.hpp"
#include "package_graph/query.hpp"
#include "package_graph/run.hpp"

using namespace package_graph;
using demo::grouped;
using demo::milliseconds;

namespace {

class temporary_file {
public:
    explicit temporary_file(std::string_view text, bool gzip = false) {
        gzFile const out = gzopen(path_.c_str(), gzip ? "wb" : "wbT");
        REQUIRE(gzwrite(out, text.data(), static_cast<unsigned>(text.size())) == static_cast<int>(text.size()));
        REQUIRE(gzclose(out) == Z_OK);
    }
    temporary_file(temporary_file const&)            = delete;
    temporary_file& operator=(temporary_file const&) = delete;
    ~temporary_file() { std::filesystem::remove(path_); }

    std::string path() const { return path_; }

private:
    static std::string unique_path() {
        static int count = 0;
        return (std::filesystem::temp_directory_path() /
                ("package_graph_test." + std::to_string(::getpid()) + "." + std::to_string(count++)))
            .string();
    }

    std::string path_ = unique_path();
};

graph from_edges(std::string_view text) {
    temporary_file const file{text};
    return load_edge_list(file.path()).graph;
}

graph from_control(std::string_view text) {
    temporary_file const file{text};
    line_reader          lines{file.path()};
    graph_builder        builder;
    read_control_file(lines, builder);
    return std::move(builder).build();
}

std::string what_fails(std::function<void()> const& f) {
    try {
        f();
    } catch (std::exception const& e) {
        return e.what();
    }
    return "nothing failed";
}

bool contains(std::string const& text, std::string_view part) { return text.find(part) != text.npos; }

/// Edges by name, both ways, with the chance of a step; apart from `graph`, which it is held against.
using plain_graph = std::map<std::string, std::map<std::string, double>>;

struct random_graph {
    std::string text;
    plain_graph steps;

    explicit random_graph(std::uint64_t seed, unsigned nodes = 40, unsigned edges = 120) {
        random_stream random{seed, 7, 7};
        for (unsigned i = 0; i < edges; ++i) {
            auto const a = "p" + std::to_string(random.below(nodes)), b = "p" + std::to_string(random.below(nodes));
            unsigned const k = 1 + random.below(1000);
            text += a + " " + b + " " + std::to_string(k) + "\n";
            if (a == b) continue;
            double& there = steps[a][b];
            there         = std::max<double>(there, k);
            steps[b][a]   = there;
        }
        for (auto& [from, all] : steps) {
            double sum = 0;
            for (auto const& [to, k] : all) sum += k;
            for (auto& [to, k] : all) k /= sum;
        }
    }
};

struct reference {
    std::string              name;
    double                   score = 0;
    std::vector<std::string> by_way_of;
};

/// The ten, by walking every path and remembering all there is to know. `choose(node, hop)` names the neighbours.
template <class Choose>
std::vector<reference> brute_force(plain_graph const& g, std::string const& start, unsigned hops, Choose choose) {
    struct seen {
        double                   sum = 0, best = -1;
        std::vector<std::string> way;
    };
    std::map<std::string, seen>                                     all;
    std::vector<std::string>                                        way;
    std::function<void(std::string const&, double, unsigned)> const walk = [&](std::string const& at, double weight,
                                                                               unsigned hop) {
        if (hop > hops) return;
        std::vector<std::string> const chosen = choose(at, hop);
        for (auto const& to : chosen) {
            auto const&  neighbours = g.at(at);
            double const here       = weight * neighbours.at(to) * static_cast<double>(neighbours.size()) /
                                static_cast<double>(chosen.size());
            seen& s = all[to];
            s.sum += here;
            if (here > s.best * (1 + 1e-5)) {
                s.best = here;
                s.way  = way;
            }
            way.push_back(to);
            walk(to, here, hop + 1);
            way.pop_back();
        }
    };
    walk(start, 1, 1);
    all.erase(start);
    std::vector<reference> ten;
    for (auto const& [name, s] : all) ten.push_back({name, s.sum, s.way});
    std::ranges::sort(ten, {}, [](reference const& r) { return std::pair{-r.score, r.name}; });
    ten.resize(std::min(ten.size(), top_size));
    return ten;
}

template <class Memory>
std::vector<ranked> ask_once(graph const& g, query_options const& how, std::string_view start) {
    query<Memory> q{g, how};
    return run_named(g, q, g.find(start).value()).related;
}

void check_same(std::vector<ranked> const& found, std::vector<reference> const& expected) {
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        CAPTURE(i);
        CHECK(found[i].package == expected[i].name);
        CHECK(found[i].score == doctest::Approx(expected[i].score).epsilon(1e-5));
        CHECK(found[i].by_way_of.size() <= 3);
    }
}

}  // namespace

TEST_CASE("all neighbours: the ten that brute force finds, in every mode") {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        random_graph const random{seed};
        graph const        g = from_edges(random.text);
        for (unsigned hops = 1; hops <= 4; ++hops) {
            query_options how;
            how.hops          = hops;
            auto const expect = brute_force(random.steps, "p0", hops, [&](std::string const& at, unsigned) {
                std::vector<std::string> all;
                for (auto const& [to, weight] : random.steps.at(at)) all.push_back(to);
                return all;
            });
            CAPTURE(seed);
            CAPTURE(hops);
            check_same(ask_once<tenure_memory>(g, how, "p0"), expect);
            check_same(ask_once<pmr_memory>(g, how, "p0"), expect);
            check_same(ask_once<new_delete_memory>(g, how, "p0"), expect);
            check_same(ask_once<shared_ptr_memory>(g, how, "p0"), expect);
        }
    }
}

TEST_CASE("some neighbours: the ten that brute force finds among the same") {
    random_graph const random{11, 40, 300};
    graph const        g = from_edges(random.text);
    for (bool const replace : {false, true}) {
        query_options how;
        how.fanout        = 5;
        how.replace       = replace;
        how.seed          = 99;
        auto const expect = brute_force(random.steps, "p1", how.hops, [&](std::string const& at, unsigned hop) {
            std::vector<std::string> chosen;
            auto const               n = g.find(at).value();
            sample(g.neighbours(n), how, n, hop, [&](neighbour to) { chosen.push_back(g.name(to.node)); });
            return chosen;
        });
        CAPTURE(replace);
        check_same(ask_once<tenure_memory>(g, how, "p1"), expect);
    }
}

TEST_CASE("the strongest path is told") {
    // From a, c is reached best through b; straight on there is next to nothing.
    graph const g     = from_edges("a b 1000\nb c 1000\na c 1\n");
    auto const  found = ask_once<tenure_memory>(g, {}, "a");
    REQUIRE(found.size() == 2);
    auto const& c = found[found[0].package == "c" ? 0 : 1];
    CHECK(c.by_way_of == std::vector<std::string>{"b"});
}

TEST_CASE("ties go by name, the start is left out, and so are names that are no packages") {
    std::string star;
    for (char leaf = 'z'; leaf >= 'l'; --leaf) star += std::string{"hub "} + leaf + "\n";
    std::vector<std::string> names;
    for (auto const& r : ask_once<tenure_memory>(from_edges(star), {}, "hub")) names.push_back(r.package);
    CHECK(names == std::vector<std::string>{"l", "m", "n", "o", "p", "q", "r", "s", "t", "u"});

    graph const virtual_between = from_control("Package: a\nDepends: awk\n\nPackage: b\nDepends: awk\n");
    auto const  found           = ask_once<tenure_memory>(virtual_between, {}, "a");
    REQUIRE(found.size() == 1);
    CHECK(found[0].package == "b");
    CHECK(found[0].by_way_of == std::vector<std::string>{"awk"});
}

TEST_CASE("same seed, same answers, in all modes to the last bit; another seed, other answers") {
    random_graph const random{3, 500, 6000};
    graph const        g = from_edges(random.text);
    workload           work;
    work.how.fanout = 7;
    work.named      = {0, 1};
    for (node_id n = 0; n < 40; ++n) work.stream.push_back(n * 7);
    auto full    = work.how;
    full.replace = true;
    work.large   = {{3, full}};

    auto const reference = run<tenure_memory>(g, work);
    CHECK(same_answers(reference, run<tenure_memory>(g, work)));
    CHECK(same_answers(reference, run<pmr_memory>(g, work)));
    CHECK(same_answers(reference, run<new_delete_memory>(g, work)));
    CHECK(same_answers(reference, run<shared_ptr_memory>(g, work)));
    CHECK(reference.large[0].paths == 7 + 7 * 7 + 7 * 7 * 7);

    work.how.seed = 2;
    CHECK_FALSE(same_answers(reference, run<tenure_memory>(g, work)));
}

TEST_CASE("a request leaves its results and nothing else") {
    random_graph const random{5};
    graph const        g = from_edges(random.text);

    auto const check = [&]<class Memory>(Memory) {
        query<Memory>          q{g, {}};
        typename Memory::batch caller{{.name = "caller"}};
        auto const             best = q(caller, 0);
        q.totals().end(caller);
        CHECK(q.totals().made == q.totals().freed);
        CHECK(q.totals().made >= q.totals().paths + 1 + best.size());
    };
    check(tenure_memory{});
    check(pmr_memory{});
    check(new_delete_memory{});
    check(shared_ptr_memory{});

    query<tenure_memory>         q{g, {}};
    query<tenure_memory>::answer best;
    {
        tenure::batch_scope caller{{.name = "caller"}};
        best = q(caller, 0);
        CHECK(q.totals().made - q.totals().freed == best.size());
        CHECK(caller.usage().objects == best.size());
        CHECK(std::ranges::all_of(best, [&](auto const& r) { return r.owner() == caller.id(); }));
    }
    CHECK(std::ranges::none_of(best, [](auto const& r) { return r.alive(); }));
}

TEST_CASE("paths are counted as they are visited") {
    graph const g = from_edges(random_graph{6, 60, 900}.text);
    for (bool const replace : {false, true}) {
        query_options how;
        how.fanout        = 9;
        how.replace       = replace;
        auto const counts = count_paths(g, how);
        for (node_id n = 0; n < g.size(); ++n) {
            query<tenure_memory> q{g, how};
            CHECK(run_named(g, q, n).paths == static_cast<std::size_t>(counts[n]));
        }
    }
}

TEST_CASE("sampling") {
    std::vector<neighbour> all(1000);
    for (node_id n = 0; n < all.size(); ++n) all[n] = {n, 1};
    auto const chosen = [&](sampling const& how, node_id node, unsigned hop) {
        std::vector<node_id> nodes;
        sample(std::span<neighbour const>{all}, how, node, hop, [&](neighbour n) { nodes.push_back(n.node); });
        return nodes;
    };

    SUBCASE("is the same on every machine") {
        random_stream              r{1, 2, 3};
        std::vector<std::uint32_t> drawn;
        for (int i = 0; i < 4; ++i) drawn.push_back(r.below(1'000'000));
        CHECK(drawn == std::vector<std::uint32_t>{759942, 951987, 931268, 876669});
    }
    SUBCASE("takes all where they are few") {
        CHECK(chosen({.fanout = 1000}, 1, 1).size() == 1000);
        CHECK(chosen({.fanout = 2000}, 1, 1).size() == 1000);
    }
    SUBCASE("takes distinct ones, in order") {
        for (std::uint32_t const fanout : {1U, 7U, 300U, 999U}) {
            auto const nodes = chosen({.fanout = fanout}, 1, 1);
            CHECK(nodes.size() == fanout);
            CHECK(std::ranges::adjacent_find(nodes, std::greater_equal{}) == nodes.end());
        }
    }
    SUBCASE("with replacement takes so many, whatever there are") {
        CHECK(chosen({.fanout = 5000, .replace = true}, 1, 1).size() == 5000);
        all.resize(1);
        CHECK(chosen({.fanout = 5, .replace = true}, 1, 1) == std::vector<node_id>(5, 0));
        all.clear();
        CHECK(chosen({.fanout = 5, .replace = true}, 1, 1).empty());
    }
    SUBCASE("depends on seed, node and hop") {
        auto const one = chosen({.fanout = 30}, 1, 1);
        CHECK(one == chosen({.fanout = 30}, 1, 1));
        CHECK(one != chosen({.fanout = 30, .seed = 2}, 1, 1));
        CHECK(one != chosen({.fanout = 30}, 2, 1));
        CHECK(one != chosen({.fanout = 30}, 1, 2));
    }
    SUBCASE("takes each as often as the next") {
        for (bool const replace : {false, true}) {
            std::vector<unsigned> times(all.size());
            for (node_id node = 0; node < 4000; ++node) {
                for (node_id const n : chosen({.fanout = 100, .replace = replace}, node, 1)) ++times[n];
            }
            // 400 expected, 20 the standard deviation (19 without replacement).
            auto const [least, most] = std::ranges::minmax(times);
            CHECK(least > 300);
            CHECK(most < 500);
        }
    }
}

TEST_CASE("an edge list reads the same from plain text and gzip") {
    std::string const text =
        "# a comment\n% another\n\nb a\n  a\tc 0.5\r\nc b 2\nc b 1\nb c 3\nd d\n"
        "last line-without-an-end";
    temporary_file const plain{text};
    temporary_file const packed{text, true};
    for (auto const& file : {plain.path(), packed.path()}) {
        graph const g = load_edge_list(file).graph;
        CHECK(g.packages() == 6);
        CHECK(g.size() == 6);
        CHECK(g.edges() == 4);  // b-c counts once; d-d does not
        auto const b = g.neighbours(g.find("b").value());
        REQUIRE(b.size() == 2);
        CHECK(g.name(b[0].node) == "a");
        CHECK(b[0].weight == doctest::Approx(1.0 / 4));
        CHECK(g.name(b[1].node) == "c");
        CHECK(b[1].weight == doctest::Approx(3.0 / 4));
        CHECK(g.neighbours(g.find("d").value()).empty());
    }
}

TEST_CASE("lines longer than a block, and lines that end on its edge") {
    for (std::size_t const length :
         {100UL, (1UL << 17) - 3, (1UL << 17) - 2, (1UL << 17) - 1, 1UL << 17, 1UL << 19}) {
        std::string const    name(length, 'x');
        temporary_file const file{name + " b\nc d\n"};
        graph const          g = load_edge_list(file.path()).graph;
        CHECK(g.packages() == 4);
        CHECK(g.find(name));
    }
}

TEST_CASE("a malformed edge list is refused, with the line") {
    for (std::string const bad :
         {"a", "a b c", "a b 0", "a b -1", "a b nan", "a b inf", "a b 1e99", "a b 1 2", "a b 1x"}) {
        temporary_file const file{"x y\n" + bad + "\n"};
        auto const           what = what_fails([&] { load_edge_list(file.path()); });
        CAPTURE(bad);
        CHECK(contains(what, file.path() + ":2: expected \"from to\""));
    }
    temporary_file const empty{"# nothing\n"};
    CHECK(contains(what_fails([&] { load_edge_list(empty.path()); }), "has no edges"));
    CHECK(contains(what_fails([] { load_edge_list("/nowhere/at/all"); }),
                   "cannot open /nowhere/at/all: No such file"));
    CHECK(contains(what_fails([] { load_edge_list("/tmp"); }), "cannot read on"));
}

TEST_CASE("gzip that is cut short or damaged is refused") {
    std::string text;
    for (int i = 0; i < 5000; ++i) text += "a" + std::to_string(i * 7919 % 5003) + " b" + std::to_string(i) + "\n";
    temporary_file const file{text, true};
    CHECK(load_edge_list(file.path()).graph.edges() == 5000);

    auto const size = std::filesystem::file_size(file.path());
    {
        std::fstream damage{file.path(), std::ios::in | std::ios::out | std::ios::binary};
        damage.seekp(static_cast<std::streamoff>(size / 2));
        damage.write("\xff\xff\xff\xff\xff\xff\xff\xff", 8);
    }
    CHECK(contains(what_fails([&] { load_edge_list(file.path()); }), "cannot read on"));

    temporary_file const cut{text, true};
    std::filesystem::resize_file(cut.path(), size - 20);
    CHECK(contains(what_fails([&] { load_edge_list(cut.path()); }), "cannot read on"));
}

TEST_CASE("names in a relation field") {
    auto const names = [](std::string_view text) {
        std::vector<std::string> all;
        for_each_name(text, [&](std::string_view name) { all.emplace_back(name); });
        return all;
    };
    CHECK(names("libc6 (>= 2.36), python3:any | python3-minimal [amd64] <!nocheck>,g++(>=4:10)|c++-compiler") ==
          std::vector<std::string>{"libc6", "python3", "python3-minimal", "g++", "c++-compiler"});
    CHECK(names("").empty());
    CHECK(names(" , ,|").empty());
    CHECK(names("\tone").size() == 1);
}

TEST_CASE("package descriptions") {
    graph const g = from_control(
        "Package: b\n"
        "Version: 1\n"
        "Depends: c (>= 2),\n"
        " awk | mawk:any,\n"
        "\tb\n"
        "Description: first\n"
        " Depends: not-this\n"
        "Suggests: c, a\n"
        "\n"
        "\n"
        "Package: a\n"
        "Pre-Depends: c\n"
        "Recommends: b\n"
        "Conflicts: enemy\n"
        "\n"
        "Package: c\n"
        "Package-List: something\n");
    CHECK(g.packages() == 3);
    CHECK(g.size() == 5);  // awk and mawk are only mentioned
    CHECK(g.name(0) == "a");
    CHECK(g.name(3) == "awk");
    CHECK(g.find("b") == node_id{1});
    CHECK_FALSE(g.find("awk"));
    CHECK_FALSE(g.find("enemy"));
    CHECK(g.edges() == 5);  // b: c awk mawk a; a: c

    // Of "Depends" and "Suggests", and of "Recommends" and "Suggests", the stronger counts: c 1, a 0.5, awk 1,
    // mawk 1.
    auto const b = g.neighbours(1);
    REQUIRE(b.size() == 4);
    CHECK(b[0].weight == doctest::Approx(0.5 / 3.5));
    CHECK(b[1].weight == doctest::Approx(1 / 3.5));
}

TEST_CASE("malformed package descriptions are refused, with the line") {
    auto const fails = [](std::string_view text, std::string_view part) {
        auto const what = what_fails([&] { from_control(text); });
        CAPTURE(what);
        CHECK(contains(what, part));
    };
    fails("Package: a\nnonsense\n", ":2: expected \"Field: value\", found \"nonsense\"");
    fails("Package: a\n: x\n", ":2: expected");
    fails("Package: a\n\n continued\n", ":3: this line continues a field");
    fails("Depends: b\nPackage: a\n", ":1: a dependency before its");
    fails("Package: a\n\nPackage:\n", ":3: a package without a name");
}

TEST_CASE("the names nearest to one that there is not") {
    CHECK(edit_distance("", "abc") == 3);
    CHECK(edit_distance("kitten", "sitting") == 3);
    CHECK(edit_distance("bash", "bash") == 0);
    graph const g = from_edges("bash bats\nfirefox-esr git\nfish zsh\n");
    CHECK(nearest_names(g, "bahs", 1) == std::vector<std::string>{"bats"});
    CHECK(nearest_names(g, "firefox", 5) == std::vector<std::string>{"firefox-esr"});
    CHECK(nearest_names(g, "something-else-entirely", 5).empty());
}

TEST_CASE("what another process found comes back, or why it did not") {
    figures f;
    f.mode               = "some";
    f.stream.ending_ms   = 0.1;
    f.stream.answers     = "ffffffffffffffff";
    f.named              = {{"a", 3, 0.5, {{"b", 1.0 / 3, {"c"}}}}};
    figures const copied = demo::in_child("copy", "", [&] { return f; });
    CHECK(copied.mode == f.mode);
    CHECK(copied.stream.ending_ms == f.stream.ending_ms);
    CHECK(same_answers(copied, f));
    CHECK_FALSE(same_answers(copied, figures{}));

    CHECK(what_fails([] {
              demo::in_child("quits", "", []() -> int { throw std::runtime_error{"on purpose"}; });
          }) == "quits failed");
    CHECK(contains(what_fails([] { demo::in_child("dies", "--fanout", [] { return std::raise(SIGKILL); }); }),
                   "dies was killed by signal 9"));
}

TEST_CASE("figures as a person reads them") {
    CHECK(grouped(0) == "0");
    CHECK(grouped(999) == "999");
    CHECK(grouped(27'090'300) == "27,090,300");
    CHECK(milliseconds(0.0312) == "0.0312 ms");
    CHECK(milliseconds(212.4) == "212 ms");
    CHECK(milliseconds(1234) == "1.23 s");
    std::vector<double> values{5, 1, 4, 2, 3};
    CHECK(percentile(values, 0.5) == 3);
    CHECK(percentile(values, 0.99) == 5);
    CHECK(percentile(values, 0.2) == 1);
    CHECK(percentile(values, 1) == 5);
}

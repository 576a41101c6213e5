// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

#include <tenure/only_memory.hpp>

#include <deque>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace {

using tenure::only_memory;
namespace pmr = std::pmr;

struct with_destructor {
    ~with_destructor() {}
};
struct file_less : std::less<> {
    ~file_less() {}
};
struct file_hash : std::hash<int> {
    ~file_hash() {}
};

/// Has all that a container of the standard library has, and something else to give back.
template <class T>
struct own_container : pmr::vector<T> {
    ~own_container() {}
};
struct own_string : pmr::string {};  ///< says below that it is one
struct with_std_in_its_argument_only : own_container<std::pair<int, int>> {};

static_assert(only_memory<int> && only_memory<std::pair<int, char>>);
static_assert(!only_memory<with_destructor> && !only_memory<std::string> && !only_memory<std::vector<int>>);
static_assert(!only_memory<std::map<int, int>>);

static_assert(only_memory<pmr::string> && only_memory<pmr::wstring> && only_memory<pmr::vector<bool>>);
static_assert(only_memory<pmr::vector<int>> && only_memory<pmr::deque<int>> && only_memory<pmr::list<int>>);
static_assert(only_memory<pmr::forward_list<int>> && only_memory<pmr::set<int>> && only_memory<pmr::multiset<int>>);
static_assert(only_memory<pmr::map<int, char>> && only_memory<pmr::multimap<int, char>>);
static_assert(only_memory<pmr::unordered_set<int>> && only_memory<pmr::unordered_multiset<int>>);
static_assert(only_memory<pmr::unordered_map<int, char>> && only_memory<pmr::unordered_multimap<int, char>>);
static_assert(only_memory<pmr::map<pmr::string, pmr::vector<pmr::list<pmr::string>>>>);

static_assert(!only_memory<pmr::vector<std::string>> && !only_memory<pmr::deque<with_destructor>>);
static_assert(!only_memory<pmr::map<std::string, int>> && !only_memory<pmr::map<int, std::string>>);
static_assert(!only_memory<pmr::unordered_map<pmr::string, with_destructor>>);
static_assert(!only_memory<pmr::set<int, file_less>> && !only_memory<pmr::map<int, int, file_less>>);
static_assert(!only_memory<pmr::unordered_set<int, file_hash>>);
static_assert(!only_memory<pmr::unordered_set<int, std::hash<int>, file_less>>);

static_assert(!only_memory<own_container<int>> && !only_memory<own_container<pmr::string>>);
static_assert(!only_memory<with_std_in_its_argument_only>);
static_assert(!only_memory<std::unique_ptr<int>> && !only_memory<std::function<void()>>);

}  // namespace

template <>
inline constexpr bool tenure::only_memory<own_string> = true;

int main() { return only_memory<own_string> ? 0 : 1; }

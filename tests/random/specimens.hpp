// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>
#include <stdexcept>
#include <vector>

#include "dice.hpp"

/// Objects of many sizes and kinds that know what they are: each carries its serial number, and a pattern made from
/// it over all its bytes. So whoever scribbles on another's memory, moves it or ends it twice is found out.
namespace specimens {

/// Hears what objects have to say for themselves. Called from destructors, on whatever thread they run.
class watcher {
public:
    virtual void ended(std::uint64_t serial) noexcept                    = 0;  ///< its destructor ran
    virtual void damaged(std::uint64_t serial, char const* how) noexcept = 0;
    virtual void meddle(std::uint64_t serial) noexcept                   = 0;  ///< in the destructor of a `meddler`

protected:
    ~watcher() = default;
};
inline watcher* watching = nullptr;

/// Every word of what is small; of more than 8 KiB about a thousand, the last among them.
template <class F>
void for_sample(std::size_t words, F f) {
    std::size_t const stride = 1 + words / 1024;
    for (std::size_t i = 0; i < words; i += stride) f(i);
    if (words) f(words - 1);
}

inline std::uint64_t pattern(std::uint64_t serial, std::size_t i) noexcept {
    return (serial << 20 ^ i) * 0x9e3779b97f4a7c15;
}

inline void fill(std::uint64_t* body, std::size_t words, std::uint64_t serial) noexcept {
    for_sample(words, [&](std::size_t i) { body[i] = pattern(serial, i); });
}

inline bool intact(std::uint64_t const* body, std::size_t words, std::uint64_t serial) noexcept {
    bool good = true;
    for_sample(words, [&](std::size_t i) { good = good && body[i] == pattern(serial, i); });
    return good;
}

/// The base of all but arrays, first or not: a handle<specimen> is enough to check the whole object.
struct specimen {
    std::uint64_t serial;
    std::uint32_t offset;  ///< from here to the pattern
    std::uint32_t words;

    specimen(std::uint64_t number, std::uint64_t* body, std::size_t n) noexcept
        : serial(number),
          offset(
              static_cast<std::uint32_t>(reinterpret_cast<std::byte*>(body) - reinterpret_cast<std::byte*>(this))),
          words(static_cast<std::uint32_t>(n)) {
        fill(body, n, number);
    }

    bool is_intact(std::uint64_t number) const noexcept {
        auto const* const body = reinterpret_cast<std::byte const*>(this) + offset;
        return serial == number && intact(reinterpret_cast<std::uint64_t const*>(body), words, number);
    }

protected:
    void end() noexcept {
        if (!is_intact(serial)) watching->damaged(serial, "at its end");
        watching->ended(serial);
        serial = ~serial;  // a second end would be another's
    }
};

/// Without a destructor.
template <std::size_t Bytes, std::size_t Align = 8>
struct alignas(Align) plain : specimen {
    static constexpr std::size_t words = (Bytes - sizeof(specimen)) / 8;
    std::uint64_t                body[words];

    explicit plain(std::uint64_t number) noexcept : specimen(number, body, words) {}
};

/// With one.
template <std::size_t Bytes, std::size_t Align = 8>
struct alignas(Align) ending : specimen {
    static constexpr std::size_t words = (Bytes - sizeof(specimen)) / 8;
    std::uint64_t                body[words];

    explicit ending(std::uint64_t number) noexcept : specimen(number, body, words) {}
    ending(ending const&)            = delete;
    ending& operator=(ending const&) = delete;
    ~ending() { end(); }
};

/// Whose specimen is not where it begins.
struct first_base {
    first_base()                             = default;
    first_base(first_base const&)            = delete;
    first_base& operator=(first_base const&) = delete;
    virtual ~first_base()                    = default;

    std::uint64_t filler[5]{};
};
template <std::size_t Bytes>
struct derived final : first_base, ending<Bytes> {
    using ending<Bytes>::ending;
};

/// Whose destructor calls the registry.
struct meddler final : ending<48> {
    using ending::ending;
    ~meddler() { watching->meddle(serial); }
};

/// Holds memory of the batch that it lives in.
class container final : public specimen {
public:
    container(std::uint64_t number, std::pmr::memory_resource* from) : specimen(number, body_, 2), items_(from) {
        grow(1 + number % 7);
    }
    container(container const&)            = delete;
    container& operator=(container const&) = delete;
    ~container() {
        if (!holds_its_items()) watching->damaged(serial, "in what it contained, at its end");
        end();
    }

    void grow(std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) items_.push_back(pattern(serial, items_.size()));
    }
    bool holds_its_items() const noexcept { return intact(items_.data(), items_.size(), serial); }

private:
    std::uint64_t                   body_[2];
    std::pmr::vector<std::uint64_t> items_;
};

struct planned_failure : std::runtime_error {
    planned_failure() : std::runtime_error("planned") {}
};

/// `before()` runs in the constructor, which then throws.
template <std::size_t Bytes>
struct failing : ending<Bytes> {
    template <class F>
    failing(std::uint64_t number, F before) : ending<Bytes>(number) {
        before();
        throw planned_failure();
    }
};

/// What elements of arrays are told, for nobody can give them arguments.
struct element_orders {
    std::uint64_t serial  = 0;
    std::uint32_t next    = 0;  ///< how many there are
    std::uint32_t fail_at = ~std::uint32_t{0};
};
inline thread_local element_orders orders;

/// Elements end last first, each once; the first of them is the end of the array.
template <std::size_t Align>
struct alignas(Align) element {
    std::uint64_t serial;
    std::uint32_t index;
    std::uint32_t count = 0;  ///< of the array; in its first element once it is made

    element() : serial(orders.serial), index(orders.next) {
        if (orders.next == orders.fail_at) throw planned_failure();
        ++orders.next;
    }
    element(element const&)            = delete;
    element& operator=(element const&) = delete;
    ~element() {
        element* const first = this - index;
        if (first->count) {
            if (first->count != index + 1) watching->damaged(serial, "as array: its elements end out of order");
            first->count = index;
            if (index == 0) watching->ended(serial);
        } else {
            --orders.next;  // a failure: what was made of the array ends, in whatever order the library has
        }
        serial = ~serial;
    }
};

}  // namespace specimens

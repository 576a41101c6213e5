// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <system_error>
#include <type_traits>

#include <boost/system/result.hpp>

namespace tenure {

/// What can go wrong. `message()` of each says what to do next.
enum class errc {
    stale_handle = 1,  ///< the object was freed
    batch_ended,       ///< the batch is over, or was asked to stop
    no_such_batch,     ///< the id was never given out by this registry
    not_owner,         ///< another batch owns the object
    limit_exceeded,    ///< the hard limit of the batch, or of one above it
    memory_full,       ///< the system gives no more memory or address space
    out_of_range,      ///< an index past the end of an array
    wrong_thread,      ///< a guard used on another thread than the one that opened it; see also keep
    bad_address,       ///< adopt() of a pointer that cannot be an object's address
};

namespace detail {

class error_category_type final : public std::error_category {
public:
    char const* name() const noexcept override { return "tenure"; }

    std::string message(int code) const override {
        switch (static_cast<errc>(code)) {
        case errc::stale_handle:
            return "stale handle: the object was freed; keep() it before its batch ends, or ask alive() first";
        case errc::batch_ended:
            return "the batch has ended; make, keep or transfer in a batch that is still active";
        case errc::no_such_batch:
            return "no such batch: this registry never gave out that id; pass an id from batch_scope::id(), "
                   "detach() or new_batch() of the same registry";
        case errc::not_owner:
            return "not the owner: another batch owns the object; call this on its owner(), or use "
                   "registry::transfer_ownership";
        case errc::limit_exceeded:
            return "limit exceeded: free something, end a child batch, or raise batch_options::limits.hard";
        case errc::memory_full:
            return "memory full: the system refused more memory; end batches, call registry::trim(), or raise the "
                   "process's limit (ulimit -v, cgroup, vm.max_map_count)";
        case errc::out_of_range: return "out of range: the index is not below size()";
        case errc::wrong_thread:
            return "wrong thread: a guard belongs to the thread that opened it (use detach() and end_batch(id), "
                   "enter(), or lane() to cross threads); a large object with a destructor stays in its batch "
                   "while "
                   "the lane that made it is open (close the lane first)";
        case errc::bad_address:
            return "bad address: adopt() takes a pointer to an object in this process, not null or a tagged value";
        }
        return "unknown tenure error";
    }

    std::error_condition default_error_condition(int code) const noexcept override {
        if (static_cast<errc>(code) == errc::memory_full) return std::errc::not_enough_memory;
        return {code, *this};
    }
};

}  // namespace detail

/// The category of `errc`. Thread-safe.
inline std::error_category const& error_category() noexcept {
    static detail::error_category_type const category;
    return category;
}

inline std::error_code make_error_code(errc e) noexcept { return {static_cast<int>(e), error_category()}; }

/// What every call of tenure throws, except that `make` lets a constructor's own exception through.
class error : public std::system_error {
public:
    explicit error(errc e) : std::system_error(make_error_code(e)) {}

    /// `context` comes first in `what()`: which call, which batch, which figures.
    error(errc e, std::string const& context) : std::system_error(make_error_code(e), context) {}
};

/// What the `try_` forms return: a value or an error_code, never an exception of tenure's own.
template <class T>
using result = boost::system::result<T, std::error_code>;

}  // namespace tenure

template <>
struct std::is_error_code_enum<tenure::errc> : std::true_type {};

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <utility>

#include <boost/asio/execution.hpp>
#include <boost/asio/io_context.hpp>

#include <tenure/remote/client/driver.hpp>

namespace tenure::detail::remote {

/// A store's own executor. What is posted to it runs on the store's thread, in order, and never inside execute().
/// Valid as long as the store.
class store_executor {
public:
    explicit store_executor(driver& d) noexcept : driver_(&d) {}

    boost::asio::execution_context& query(boost::asio::execution::context_t) const noexcept {
        return driver_->handlers();
    }
    static constexpr boost::asio::execution::blocking_t query(boost::asio::execution::blocking_t) noexcept {
        return boost::asio::execution::blocking.never;
    }

    template <class F>
    void execute(F&& f) const {
        boost::asio::require(driver_->handlers().get_executor(), boost::asio::execution::blocking.never)
            .execute(std::forward<F>(f));
        driver_->handlers_wait();
    }

    friend bool operator==(store_executor const&, store_executor const&) noexcept = default;

private:
    driver* driver_;
};

}  // namespace tenure::detail::remote

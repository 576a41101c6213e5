// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <utility>

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/dispatch.hpp>
#include <tenure/batch.hpp>
#include <tenure/batch_scope.hpp>

namespace tenure::this_coro {

struct batch_operation {
    template <boost::asio::completion_token_for<void(batch_id)> Token>
    auto operator()(Token&& token) const {
        return boost::asio::async_initiate<Token, void(batch_id)>(
            [](auto handler) {
                auto const at = boost::asio::get_associated_executor(handler);
                boost::asio::dispatch(at, [h = std::move(handler)]() mutable { std::move(h)(current_batch()); });
            },
            token);
    }
};

/// `co_await this_coro::batch()` returns the batch that is current in this coroutine, or none if that is over.
/// tenure::current_batch() returns the same without the cost of co_await, also in functions that the coroutine
/// calls.
inline batch_operation batch() noexcept { return {}; }

}  // namespace tenure::this_coro

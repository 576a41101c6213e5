// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <tenure/asio/batch_executor.hpp>
#include <tenure/asio/cancelled_with.hpp>
#include <tenure/asio/supervisor.hpp>
#include <tenure/asio/with_batch.hpp>

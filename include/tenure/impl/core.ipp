// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

/// All that the headers of objects, handles and batches call and do not have.

#include <tenure/detail/life/public_calls.ipp>
#include <tenure/detail/objects/bump.ipp>
#include <tenure/detail/objects/checked_access.ipp>
#include <tenure/detail/objects/lane_resource.ipp>
#include <tenure/detail/objects/make_object.ipp>
#include <tenure/detail/objects/throwing.ipp>
#include <tenure/impl/handle.ipp>

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <utility>

#include <tenure/buffer.hpp>
#include <tenure/detail/blocks/store_errors.hpp>
#include <tenure/detail/buffers/buffer_calls.hpp>
#include <tenure/device/store.hpp>

namespace tenure {

/// Returns what kernels on a Device take to use the buffer, which is in a device_store of that Device. See
/// native_view for how long it is valid; the buffer may end before the view does. No other thread may free or move
/// the buffer meanwhile.
///
/// Throws stale_handle, std::bad_alloc, what the device reports, and not_addressable if the buffer is elsewhere.
/// If it is in an adaptor over a device_store whose blocks are that store's own, ask that store for
/// view(buffer.block()).
template <device Device, class T>
native_view<Device> native(buffer<T> const& b) {
    any_store const             in = b.stores().front();
    device_store<Device>* const on = in.get_if<device_store<Device>>();
    if (!on) detail::throw_store_error(make_error_code(errc::not_addressable), "take a native view of", in);
    result<native_view<Device>> view = make_error_code(errc::stale_handle);
    detail::look_at_block(detail::handle_access::raw(b), [&] {
        view = on->view(b.block());
        if (view) return;
        if (!b.alive()) raise(error(errc::stale_handle, "native"));
        detail::throw_store_error(view.error(), "take a native view of", in);
    });
    return *std::move(view);
}

}  // namespace tenure

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tenure/version.hpp>

#include <utility>

#include <tenure/buffer.hpp>
#include <tenure/device/store.hpp>

namespace tenure {

/// What kernels on a Device take to use the buffer, which is in a device_store of it: see native_view for how long,
/// and mind that the buffer may end before the view does. Not while the buffer is freed or moved on another thread.
///
/// Throws stale_handle; not_addressable: the buffer is elsewhere (of an adaptor over a device_store, ask the store
/// below for view(buffer.block()), where blocks are its own); and what the device says.
template <device Device, class T>
native_view<Device> native(buffer<T> const& b) {
    any_store const             in = b.stores().front();
    device_store<Device>* const on = in.get_if<device_store<Device>>();
    if (!on) detail::throw_store_error(make_error_code(errc::not_addressable), "take a native view of", in);
    detail::raw_handle const    what = detail::handle_access::raw(b);
    detail::buffer_access const at(static_cast<detail::buffer_record const*>(what.pointer));
    if (!at) raise(std::bad_alloc());
    for (;;) {
        auto view = on->view(b.block());
        if (!view) {
            if (!b.alive()) raise(error(errc::stale_handle, "native"));
            detail::throw_store_error(view.error(), "take a native view of", in);
        }
        if (detail::note_mapped(what)) return *std::move(view);
    }
}

}  // namespace tenure

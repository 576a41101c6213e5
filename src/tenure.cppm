// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0

// `import tenure;` gives what <tenure/tenure.hpp> and <tenure/objects.hpp> do. Sources that import it, the module itself
// and the one source of tenure::compiled all define TENURE_SEPARATE. Headers that need more than the standard library are
// included beside it.
module;

#include <tenure/objects.hpp>
#include <tenure/tenure.hpp>

export module tenure;

export namespace tenure {

using tenure::errc;
using tenure::error;
using tenure::error_category;
using tenure::make_error_code;
using tenure::result;
using tenure::unexpected;

using tenure::batch_id;
using tenure::batch_limits;
using tenure::batch_options;
using tenure::batch_report;
using tenure::batch_status;
using tenure::batch_usage;
using tenure::cleanup;
using tenure::deferred_call;
using tenure::no_limit;
using tenure::no_timeout;
using tenure::on_exception;
using tenure::reclamation;
using tenure::release_phase;
using tenure::reservation;
using tenure::residency;
using tenure::root_makes;

using tenure::batch_function;
using tenure::batch_owner;
using tenure::batch_scope;
using tenure::below;
using tenure::bind_batch;
using tenure::current_batch;
using tenure::entered;
using tenure::lane;
using tenure::with_batch;

using tenure::adopt;
using tenure::adopt_buffer;
using tenure::cancel;
using tenure::current_resource;
using tenure::defer;
using tenure::detach;
using tenure::free;
using tenure::keep;
using tenure::keep_copy;
using tenure::keep_to;
using tenure::make;
using tenure::make_buffer;
using tenure::make_for_overwrite;
using tenure::open_buffer;
using tenure::pmr;
using tenure::release;
using tenure::transfer_ownership;
using tenure::try_cancel;
using tenure::try_compact;
using tenure::try_detach;
using tenure::try_free;
using tenure::try_keep;
using tenure::try_keep_copy;
using tenure::try_keep_to;
using tenure::try_make;
using tenure::try_make_buffer;
using tenure::try_make_for_overwrite;
using tenure::try_release;
using tenure::try_transfer_ownership;

using tenure::buffer;
using tenure::buffer_slice;
using tenure::compact;
using tenure::compact_handle;
using tenure::const_handle_cast;
using tenure::operator<<;
using tenure::to_text;
using tenure::copied_part;
using tenure::dynamic_handle_cast;
using tenure::enable_handle_from_this;
using tenure::handle;
using tenure::only_memory;
using tenure::restorable;
using tenure::row_layout;
using tenure::static_handle_cast;
using tenure::sync;
using tenure::unique_owner;

using tenure::borrow;
using tenure::pin;
using tenure::pinned;
using tenure::try_borrow;
using tenure::try_pin;

using tenure::broadcast;
using tenure::copy;
using tenure::derivable;
using tenure::evict;
using tenure::frozen;
using tenure::frozen_buffer;
using tenure::make_derived;
using tenure::recursive;
using tenure::recursive_t;
using tenure::share;
using tenure::try_share;

using tenure::any_eviction_policy;
using tenure::eviction_candidate;
using tenure::least_recently_entered;
using tenure::memory_limits;
using tenure::paged_access;
using tenure::registry;
using tenure::registry_options;

using tenure::batch_info;
using tenure::object_info;
using tenure::registry_usage;
using tenure::snapshot;
using tenure::store_info;

using tenure::any_store;
using tenure::backing_store;
using tenure::block;
using tenure::heap_options;
using tenure::heap_store;
using tenure::store_traits;
using tenure::store_usage;

}  // namespace tenure

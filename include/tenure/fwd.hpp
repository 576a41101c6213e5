// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

// Declares the names that occur in signatures, for headers that need no more of them. Costs a compiler nothing.
// Templates over a store or a device are left out, because their concepts would have to be known.

#include <tenure/version.hpp>

#include <cstdint>

namespace tenure {

enum class errc;
class error;

struct batch_id;
enum class batch_status : std::uint8_t;
enum class cleanup : std::uint8_t;
enum class reclamation : std::uint8_t;
enum class on_exception : std::uint8_t;
enum class residency : std::uint8_t;
enum class release_phase : std::uint8_t;
class deferred_call;
struct batch_usage;
struct batch_limits;
struct batch_options;
struct batch_report;

class reservation;
class memory_budget;
class machine_arbiter;
class chunk_size;
struct budget_options;
struct budget_figures;
struct reservation_request;
struct arbiter_options;
struct chunk_options;
struct share_options;
struct machine_figures;
struct memory_use;

class store_group;
class memory_manager;
class fleet_view;
class fleet_buffer;
class plan;
class any_policy;
struct member_options;
struct manager_options;
struct retire_options;
struct retire_report;
struct cycle_options;
struct cycle_report;
struct store_status;

template <class T>
class handle;
template <class T>
class compact_handle;
template <class T>
class enable_handle_from_this;
template <class T>
class unique_owner;
template <class T>
class buffer;
template <class E>
class buffer_slice;
template <class T>
class frozen_buffer;
template <class T>
class pinned;
struct copied_part;
struct row_layout;

class batch_scope;
class batch_owner;
class below;
class lane;
class entered;

class registry;
struct registry_options;
struct memory_limits;
struct eviction_candidate;
enum class paged_access : std::uint8_t;

struct snapshot;
struct registry_usage;
struct batch_info;
struct object_info;
struct store_info;
class restored_buffers;

struct block;
struct store_traits;
struct store_usage;
class any_store;
class heap_store;
struct heap_options;
class mmap_store;
struct mmap_options;
class durable_mmap_store;
struct durable_options;
struct store_limits;
struct tiered_options;

class host_device;
class opencl_device;
struct opencl_options;
class cuda_device;
struct cuda_options;
struct device_store_options;

class remote_store;
struct client_options;
class buffer_server;
struct server_options;
struct endpoint;

class supervisor;

}  // namespace tenure

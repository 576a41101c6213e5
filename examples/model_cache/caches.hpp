// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ios>
#include <memory_resource>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <tenure/tenure.hpp>

#include "client.hpp"

namespace model_cache {

/// Where a thousand clients are while one of them trains. To whoever trains them it is
///   use(i, f)         f(client&, scratch): client i, and memory for what is of no use afterwards
///   bytes_written()   to disk, so far

/// A batch a client: its arrays, its metrics and the client itself are made there. Over the registry's limit, whole
/// clients go out, and come back when somebody enters them; the code that trains them does not know.
class batches {
public:
    batches(std::size_t clients, std::size_t parameters, tenure::registry_options options)
        : limited_(options.memory_limit.high != tenure::no_limit), registry_(std::move(options)) {
        for (std::size_t i = 0; i < clients; ++i) add("client " + std::to_string(i), parameters);
    }
    ~batches() {
        for (tenure::batch_id const id : ids_) registry_.end_batch(id);
    }
    batches(batches const&)            = delete;
    batches& operator=(batches const&) = delete;

    template <class F>
    void use(std::size_t i, F f) {
        auto const          inside = registry_.enter(ids_[i]);
        tenure::batch_scope scratch{{.name = "scratch"}};
        f(*clients_[i], scratch.resource());
    }

    std::uint64_t bytes_written() const { return registry_.snapshot().paging.written; }

private:
    void add(std::string const& name, std::size_t parameters) {
        auto const          residency = limited_ ? tenure::residency::automatic : tenure::residency::memory;
        tenure::batch_scope batch{registry_, {.name = name, .residency = residency}};
        auto const          array = [&] { return batch.make<float[]>(parameters).span(); };
        clients_.push_back(batch.make<client>(array(), array(), array(), batch.resource()));
        ids_.push_back(batch.detach());
    }

    bool                                limited_;
    tenure::registry                    registry_;
    std::vector<tenure::batch_id>       ids_;
    std::vector<tenure::handle<client>> clients_;
};

/// A file a client, and in memory only the one that is in use: what one would do without tenure.
class files {
public:
    files(std::size_t clients, std::size_t parameters, std::filesystem::path const& below)
        : directory_(make_directory(below)),
          arrays_(3 * parameters),
          client_(array(0), array(1), array(2), std::pmr::get_default_resource()) {
        for (std::size_t i = 0; i < clients; ++i) write(i);
    }
    ~files() {
        std::error_code ignored;  // a destructor can do no more about it
        std::filesystem::remove_all(directory_, ignored);
    }
    files(files const&)            = delete;
    files& operator=(files const&) = delete;

    template <class F>
    void use(std::size_t i, F f) {
        read(i);
        f(client_, std::pmr::get_default_resource());
        write(i);
    }

    std::uint64_t bytes_written() const { return written_; }

private:
    static std::filesystem::path make_directory(std::filesystem::path const& below) {
        auto path = (below / "model_cache_XXXXXX").string();
        if (!::mkdtemp(path.data())) throw std::system_error{errno, std::generic_category(), path};
        return path;
    }

    std::span<float> array(std::size_t i) {
        std::size_t const n = arrays_.size() / 3;
        return std::span(arrays_).subspan(i * n, n);
    }

    template <class Stream>
    Stream open(std::size_t i, std::ios::openmode how) const {
        auto const name = directory_ / std::to_string(i);
        Stream     file{name, how | std::ios::binary};
        if (!file) throw std::system_error{errno, std::generic_category(), name.string()};
        file.exceptions(std::ios::badbit | std::ios::failbit);
        return file;
    }

    template <class Numbers>
    static void read_all(std::ifstream& from, Numbers& what) {
        auto const bytes = std::as_writable_bytes(std::span(what));
        from.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    }
    template <class Numbers>
    void write_all(std::ofstream& to, Numbers const& what) {
        auto const bytes = std::as_bytes(std::span(what));
        to.write(reinterpret_cast<char const*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
        written_ += bytes.size();
    }

    void read(std::size_t i) {
        auto          file = open<std::ifstream>(i, std::ios::in);
        std::uint32_t counts[2];  // of steps, of metrics
        read_all(file, counts);
        client_.steps = counts[0];
        client_.metrics.resize(counts[1]);
        read_all(file, arrays_);
        read_all(file, client_.metrics);
    }
    void write(std::size_t i) {
        auto                file = open<std::ofstream>(i, std::ios::out | std::ios::trunc);
        std::uint32_t const counts[]{client_.steps, static_cast<std::uint32_t>(client_.metrics.size())};
        write_all(file, counts);
        write_all(file, arrays_);
        write_all(file, client_.metrics);
        file.close();
    }

    std::filesystem::path directory_;
    std::vector<float>    arrays_;  ///< of the client in use, in one piece
    client                client_;
    std::uint64_t         written_ = 0;
};

}  // namespace model_cache

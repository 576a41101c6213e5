// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#include "support.hpp"

#include <fstream>
#include <new>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

namespace bench {

std::size_t resident_bytes() { return resident_bytes(::getpid()); }

std::size_t resident_bytes(::pid_t of) {
    std::size_t total = 0, resident = 0;
    std::ifstream{"/proc/" + std::to_string(of) + "/statm"} >> total >> resident;
    return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

warm_buffer::warm_buffer(std::size_t bytes) {
    constexpr std::size_t huge_page = std::size_t{2} << 20;
    mapped_                         = bytes + huge_page;
    mapping_ = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping_ == MAP_FAILED) throw std::bad_alloc{};
    auto const address = reinterpret_cast<std::uintptr_t>(mapping_);
    data_              = static_cast<std::byte*>(mapping_) + (huge_page - address % huge_page) % huge_page;
    // Where the kernel refuses, the pages are small: the report's line about the machine says so.
    if (bytes >= huge_page) ::madvise(data_, bytes, MADV_HUGEPAGE);
    for (std::size_t at = 0; at < bytes; at += 4096) data_[at] = std::byte{1};
}

warm_buffer::~warm_buffer() { ::munmap(mapping_, mapped_); }

}  // namespace bench

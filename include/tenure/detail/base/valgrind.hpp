// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <tenure/detail/base/config.hpp>

namespace tenure::detail {

/// Client requests to valgrind: instructions that do nothing elsewhere (its manual, "The Client Request
/// mechanism"). valgrind's own header does the same. But not every machine has it, and an inline function that
/// differs from one source file to the next would violate the one-definition rule.
class valgrind {
public:
    static bool runs() noexcept { return request(0x1001) != 0; }
    static void show_errors(bool on) noexcept { request(0x1801, on ? ~std::uintptr_t{0} : 1); }

    static void tell_unusable(void const* p, std::size_t n) noexcept { request(memcheck, address(p), n); }
    static void tell_undefined(void const* p, std::size_t n) noexcept { request(memcheck + 1, address(p), n); }

private:
    static constexpr std::uintptr_t memcheck = std::uintptr_t{'M'} << 24 | std::uintptr_t{'C'} << 16;

    static std::uintptr_t address(void const* p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }

    /// Returns valgrind's answer, or 0 if valgrind does not run.
    TENURE_COLD static std::uintptr_t request(std::uintptr_t what, std::uintptr_t a = 0,
                                              std::uintptr_t b = 0) noexcept {
        std::uintptr_t const volatile words[6]{what, a, b, 0, 0, 0};
        std::uintptr_t answer = 0;
#if defined(__x86_64__)
        asm volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\txchgq %%rbx, %%rbx"
                     : "+d"(answer)
                     : "a"(&words[0])
                     : "cc", "memory");
#elif defined(__aarch64__)
        asm volatile(
            "mov x3, %1\n\tmov x4, %2\n\t"
            "ror x12, x12, #3\n\tror x12, x12, #13\n\tror x12, x12, #51\n\tror x12, x12, #61\n\t"
            "orr x10, x10, x10\n\tmov %0, x3"
            : "=r"(answer)
            : "r"(answer), "r"(&words[0])
            : "cc", "memory", "x3", "x4");
#else
        static_cast<void>(words);
#endif
        return answer;
    }
};

}  // namespace tenure::detail

// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

// The version is stated here only: CMake reads these three lines.
#define TENURE_VERSION_MAJOR 0
#define TENURE_VERSION_MINOR 1
#define TENURE_VERSION_PATCH 0

// Every public header includes this file first. An #include of a file that does not exist ends the compilation
// with one line. After an #error, the compiler would also report everything that an older C++ finds wrong.
#if __cplusplus < 202002L
#include <tenure needs C++20: compile with -std=c++20>
#elif defined(__clang__) ? __clang_major__ < 16 : __GNUC__ < 12
#include <tenure needs g++ 12 or clang 16, or later>
#endif
